//! Facts about other projects' behaviour, as vector files, run against damper. See `vectors/README.md`.

mod x_time_rate;
