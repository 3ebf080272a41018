import sys, time, pathlib
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import proof
from translator import rust
import importlib
root=pathlib.Path(__file__).resolve().parent.parent/'crates/damper-core/src'
FILES=['sync/field.rs','time/scale.rs','time/ticks.rs','time/frequency.rs','time/micros.rs','quota/mod.rs','quota/alignment.rs','quota/timeline.rs','quota/plan.rs','limit/token_bucket/line.rs','limit/windows/line.rs','limit/windows/mod.rs','limit/fixed_window.rs','limit/sliding_counter.rs','limit/per_key.rs','limit/by_plan.rs','word32/line.rs','word32/times.rs','breaker/state_word.rs','breaker/wrapping_micros.rs','keyed/table/slots.rs','concurrency/slots.rs']
c=rust.Crate()
for f in FILES: c.read(f,(root/f).read_text())
import types
sys.modules['properties']=types.ModuleType('properties'); sys.modules['properties'].__path__=[str(pathlib.Path(__file__).resolve().parent/'properties')]
importlib.import_module('properties.'+sys.argv[1])
for p in proof.PROPERTIES:
    if len(sys.argv)>2 and sys.argv[2] not in p.name: continue
    r=proof.prove(p,c,20)
    print(p.name, r.proof.instances, r.proof.count, '%.2f'%r.seconds, r.broken and (r.broken.claim,r.broken.place,r.broken.values), r.undecided, flush=True)
