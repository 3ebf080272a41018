timeout ${T:-100} /usr/bin/python3 run.py "$@"
