"""The breaker's word in 64 and 32 bits: `breaker/state_word.rs`, and its times: `breaker/wrapping_micros.rs`, `word32/times.rs`."""

import z3

from proof import proved
from translator.rust import Type
from translator.values import Enum, Number, Struct, both, implies, negated

WIDTHS = {"u64": dict(payload=44, generation=13, reopens=4, probes=10, failed=10, deadline=0, returning=True)}
WIDTHS["u32"] = dict(payload=21, generation=5, reopens=3, probes=5, failed=0, deadline=11, returning=False)


def phase(proof, width):
    """Any phase whose counts fit the word: the variants are told apart by one number."""
    its = WIDTHS[width]
    which = proof.number("variant", "u64", 0, 6 if its["returning"] else 4)
    most = lambda bits: (1 << min(bits, 32)) - 1  # noqa: E731
    failures = proof.number("failures", "u32", 0, most(its["payload"]))
    probes = {
        "in_flight": proof.number("in_flight", "u32", 0, most(its["probes"])),
        "succeeded": proof.number("succeeded", "u32", 0, most(its["probes"])),
        "failed": proof.number("failed", "u32", 0, most(its["failed"])),
        "deadline": proof.number("deadline", "u32", 0, most(its["deadline"])),
    }
    payloads = {
        "Closed": {"failures": failures},
        "Open": {"until": proof.number("until", "u64", 0, (1 << its["payload"]) - 1)},
        "HalfOpen": [Struct("Probes", [], probes)],
        "ForcedOpen": [],
        "ForcedClosed": [],
        "Disabled": {"failures": failures},
        "Returning": {"failures": failures},
    }
    names = list(payloads)[: 7 if its["returning"] else 5]
    conditions = {name: proof.domain.compare("==", which, Number("u64", at)) for at, name in enumerate(names)}
    return Enum("Phase", conditions, {name: payloads[name] for name in names})


def snapshot(proof, width, word):
    return Struct("Snapshot", [Type(width)], word.fields)


@proved("breakers", cases=["u64", "u32"])
def state_survives_packing(proof):
    """Generation, reopenings and phase are read back as they were packed, for every phase whose counts fit; none leaks into another."""
    width, its = proof.case, WIDTHS[proof.case]
    generation = proof.number("generation", "u32", 0, (1 << its["generation"]) - 1)
    reopens = proof.number("reopens", "u32", 0, (1 << its["reopens"]) - 1)
    given = phase(proof, width)
    word = snapshot(proof, width, proof.call(f"Snapshot<{width}>::packed", generation, reopens, given))
    equal = proof.machine.equal
    proof.claim(equal(proof.call(f"Snapshot<{width}>::phase", word), given), "the phase")
    proof.claim(equal(proof.call(f"Snapshot<{width}>::generation", word).fields["0"], generation), "the generation")
    proof.claim(equal(proof.call(f"Snapshot<{width}>::reopens", word), reopens), "the reopenings")
    empty = proof.call(f"Snapshot<{width}>::is_closed_without_failure", word, Struct("Generation", [], {"0": generation}))
    closed = both(given.is_("Closed"), equal(given.payloads["Closed"]["failures"], Number("u32", 0)), equal(reopens, Number("u32", 0)))
    proof.claim(negated(empty) == negated(closed), "closed without failure is recognized")


# CLAIM: CircuitBreaker
@proved("breakers", cases=["u64", "u32"])
def transition_counts_generation_and_reopens(proof):
    """A transition goes to the next generation, which wraps, and reopenings stop at the most that the word counts."""
    width, its = proof.case, WIDTHS[proof.case]
    word = Struct("Snapshot", [Type(width)], {"0": proof.number("word", width)})
    reopens, given = proof.number("reopens", "u32"), phase(proof, width)
    after = snapshot(proof, width, proof.call(f"Snapshot<{width}>::transition_to", word, reopens, given))
    generation = [proof.term(proof.call(f"Snapshot<{width}>::generation", one).fields["0"]) for one in (word, after)]
    proof.claim(generation[1] == (generation[0] + 1) & ((1 << its["generation"]) - 1), "the next generation")
    most, found = (1 << its["reopens"]) - 1, proof.term(proof.call(f"Snapshot<{width}>::reopens", after))
    proof.claim(found == z3.If(z3.ULT(proof.term(reopens), most), proof.term(reopens), most), "as many reopenings as fit")
    proof.claim(proof.machine.equal(proof.call(f"Snapshot<{width}>::phase", after), given), "the phase")
    kept = snapshot(proof, width, proof.call(f"Snapshot<{width}>::with", word, given))
    same = proof.machine.equal(proof.call(f"Snapshot<{width}>::generation", kept).fields["0"], Number("u32", generation[0]))
    proof.claim(same, "another payload keeps the generation")


@proved("breakers")
def cooldown_ends_when_it_should(proof):
    """A time of 44 bits of microseconds reads as ahead by exactly what was added, up to the whole circle, wherever it wraps."""
    micros, wait = proof.number("micros", "u64"), proof.number("wait", "u64", 0, (1 << 44) - 1)
    now = proof.call("WrappingMicros::from_micros", micros)
    then = proof.call("WrappingMicros::after", now, wait)
    proof.claim(proof.machine.equal(proof.call("WrappingMicros::since", then, now), wait), "it is the wait")
