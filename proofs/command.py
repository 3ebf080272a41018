"""The command `proofs/run`."""

import re
import sys
import time
from pathlib import Path

import z3

import mutations
import proof
import properties  # noqa: F401
from translator.rust import Crate, Unknown

SOURCES = Path(__file__).resolve().parent.parent / "crates/damper-core/src"
# The files that the properties call functions of. Only the functions that are called have to be in the translator's subset.
FILES = """
    sync/field.rs time/scale.rs time/ticks.rs time/frequency.rs quota/mod.rs quota/alignment.rs quota/timeline.rs quota/plan.rs quota/beats.rs digest.rs
    limit/token_bucket/line.rs limit/windows/line.rs limit/windows/mod.rs limit/fixed_window.rs limit/sliding_counter.rs limit/per_key.rs
    limit/by_plan.rs limit/planned_level.rs words/limiter.rs words/table/slot.rs word32/line.rs word32/times.rs breaker/state_word.rs breaker/wrapping_micros.rs keyed/table/slots.rs concurrency/slots.rs
""".split()
# How long the solver may think about one question, in seconds.
PATIENCE = 120
# The cases of a property that a quick run proves.
QUICK = 4


def read(changed=None):
    crate = Crate()
    for name in FILES:
        text = (SOURCES / name).read_text()
        if changed and changed.file == name:
            text = changed.apply(text)
        crate.read(name, text)
    return crate


def chosen(names):
    found = [its for its in proof.PROPERTIES if not names or any(name == its.group or name in its.name for name in names)]
    if not found:
        sys.exit(f"proofs/run: no property is called {' '.join(names)}; --list names them")
    return found


def quick(cases):
    """Some of the cases: the first, the last, and some between."""
    if len(cases) <= QUICK:
        return cases
    return [cases[round(at * (len(cases) - 1) / (QUICK - 1))] for at in range(QUICK)]


def literal(name, value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def rust_test(result):
    """The counterexample as a test that fails, to be pasted into `crates/damper-core/src/counterexamples.rs`."""
    values, text = result.broken.values, result.proof.text
    if not text:
        return "// " + ", ".join(f"{name}: {literal(name, value)}" for name, value in values.items()) + "\n"
    known = {name: literal(name, value) for name, value in values.items()}

    def fill(match):
        name, _, kind = match[1].partition(":")
        if kind == "option":
            return f"Some({known[name]})" if known.get("has_own_max_debt") == "true" else "None"
        return known.get(name, "0")

    body = re.sub(r"\{(\w+(?::\w+)?)\}", fill, text.replace("{{", "\0").replace("}}", "\1")).replace("\0", "{").replace("\1", "}")
    return f"#[test]\nfn {result.property.name}() {{\n{body}}}\n"


def report(result):
    its = result.property
    state = "BROKEN" if result.broken else "OPEN" if result.undecided else "proved"
    cases = f"{result.proof.instances} cases, " if result.proof.instances > 1 else ""
    print(f"{state:7} {its.group:9} {its.name} ({cases}{result.proof.count} claims, {result.seconds:.1f} s)", flush=True)
    if result.broken:
        where = f" at {result.broken.place}" if result.broken.place else ""
        print(f"        broken{where}: {result.broken.claim}\n\n{rust_test(result)}")
    elif result.undecided:
        print(f"        the solver does not decide: {result.undecided}")


def prove_all(names, is_quick):
    began, results = time.process_time(), []
    crate = read()
    for its in chosen(names):
        if is_quick:
            its.cases = quick(its.cases)
        results.append(proof.prove(its, crate, PATIENCE))
        report(results[-1])
    proved = [result for result in results if not result.broken and not result.undecided]
    used = {place for result in results for place in result.proof.used}
    claims = sum(result.proof.count for result in results)
    print(
        f"{len(proved)} of {len(results)} properties are proved{' for some of their cases' if is_quick else ''}, {claims} claims about "
        f"{len(used)} functions, in {time.process_time() - began:.0f} s of a processor, by z3 {z3.get_version_string()}"
    )
    return len(proved) == len(results)


def try_mutations(names):
    """Shows that the proofs notice: with each mutation one of the properties that it names has to be broken."""
    began, noticed = time.process_time(), 0
    wanted = [its for its in mutations.ALL if not names or any(name in its.name or name in its.file for name in names)]
    for its in wanted:
        crate = read(its)
        (property,) = (one for one in proof.PROPERTIES if one.name == its.property)
        result = proof.prove(property, crate, PATIENCE)
        if result.broken:
            noticed += 1
            print(f"noticed {its.file}: {its.name}: {its.property}: {result.broken.claim}", flush=True)
        else:
            print(f"MISSED  {its.file}: {its.name}: {its.property} {result.undecided or 'is proved all the same'}", flush=True)
    print(f"{noticed} of {len(wanted)} mutations are noticed, in {time.process_time() - began:.0f} s of a processor")
    return noticed == len(wanted)


def main(arguments):
    options = {argument for argument in arguments if argument.startswith("--")}
    names = [argument for argument in arguments if not argument.startswith("--")]
    if options - {"--quick", "--mutations", "--list"}:
        sys.exit("usage: proofs/run [--quick | --mutations | --list] [NAME...]")
    try:
        if "--list" in options:
            for its in chosen(names):
                print(f"{its.group:9} {its.name}: {its.sentence}")
            return
        passed = try_mutations(names) if "--mutations" in options else prove_all(names, "--quick" in options)
    except Unknown as error:
        sys.exit(f"proofs/run: outside of the translator's subset: {error}")
    sys.exit(not passed)


main(sys.argv[1:])
