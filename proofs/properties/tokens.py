"""The line of tokens: `limit/token_bucket/line.rs`."""

import z3

from proof import proved
from translator.values import INTEGERS, Number, Struct, both, either, implies, negated

from .inputs import EACH, TOKEN_LINE, clock, token_line



def setting(proof, n=True):
    """A line, any word, any position, and a number of tokens: what every operation gets."""
    line, _ = token_line(proof)
    word, at = proof.number("word", "u64"), proof.number("at", "u64")
    tokens = proof.number("n", "u32") if n else None
    return line, proof.case, word, at, tokens


def debt(proof, word, at):
    return proof.call("TokenLine::debt", word, at)


def plain(proof, number):
    return proof.wide(number)


def units(proof, tokens, bits):
    """Tokens in units, without a bound on their bits."""
    return proof.wide(tokens) * 2**bits


@proved("tokens")
def debt_is_how_far_the_word_lies_ahead(proof):
    """The debt is the distance from the position to the word if the word lies ahead by less than half a circle, else 0."""
    word, at = proof.number("word", "u64"), proof.number("at", "u64")
    found = debt(proof, word, at)
    ahead = proof.term(word) - proof.term(at)
    proof.claim(proof.term(found) == z3.If(ahead >= 0, ahead, 0), "the debt is the signed distance, or 0")
    proof.fails_as("    let _ = TokenLine::debt({word}, {at});\n")


# CLAIM: RateLimiter
@proved("tokens", INTEGERS, cases=EACH["limiter"])
def take_keeps_the_envelope(proof):
    """A take of n tokens leaves exactly n tokens more of debt, and the debt is at most a burst. Any word, any position, any quota."""
    line, bits, word, at, n = setting(proof)
    proof.assume(proof.domain.compare(">", n, Number("u32", 0)))
    result = proof.call("TokenLine::take", line, word, at, n)
    after = result.payloads["Ok"][0]
    before, behind = plain(proof, debt(proof, word, at)), plain(proof, debt(proof, after, at))
    taken = result.is_("Ok")
    full = plain(proof, line.fields["full"])
    proof.claim(implies(taken, behind <= full), "the debt after a take is at most a burst")
    proof.claim(implies(taken, behind == before + units(proof, n, bits)), "a take costs exactly its tokens")
    proof.fails_as(
        TOKEN_LINE
        + """\
    if let Ok(after) = line.take({word}, {at}, {n}) {{
        let (before, behind) = (TokenLine::debt({word}, {at}), TokenLine::debt(after, {at}));
        assert!(behind <= line.timeline().units(quota.burst_size().into()), "beyond the burst: {{behind}}");
        assert_eq!(u128::from(behind), u128::from(before) + (u128::from({n}_u32) << line.timeline().fraction_bits()));
    }}
"""
    )


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def take_refuses_only_what_is_beyond_the_burst(proof):
    """A take is refused exactly if the debt and the cost exceed the burst, and as `ExceedsBurst` exactly if the cost alone does."""
    line, bits, word, at, n = setting(proof)
    proof.assume(proof.domain.compare(">", n, Number("u32", 0)))
    result = proof.call("TokenLine::take", line, word, at, n)
    error = result.payloads["Err"][0]
    wanted = plain(proof, debt(proof, word, at)) + units(proof, n, bits)
    full, cost = plain(proof, line.fields["full"]), units(proof, n, bits)
    refused = result.is_("Err")
    proof.claim(refused == (wanted > full), "refused exactly if it does not fit")
    proof.claim(implies(refused, error.is_("ExceedsBurst") == (cost > full)), "`ExceedsBurst` exactly if the cost alone does not fit")
    short = plain(proof, error.payloads["Short"][0])
    proof.claim(implies(both(refused, error.is_("Short")), short == wanted - full), "what is missing is what does not fit")
    proof.fails_as(
        TOKEN_LINE
        + """\
    let wanted = u128::from(TokenLine::debt({word}, {at})) + (u128::from({n}_u32) << line.timeline().fraction_bits());
    let full = u128::from(line.timeline().units(quota.burst_size().into()));
    assert_eq!(line.take({word}, {at}, {n}).is_err(), wanted > full);
"""
    )


# CLAIM: RateLimiter
@proved("tokens", INTEGERS, cases=EACH["limiter"])
def missing_units_are_the_fewest_that_suffice(proof):
    """After a refusal that lacks s units, the same take succeeds at a position s units later, and at none in between."""
    line, bits, word, at, n = setting(proof)
    later = proof.number("later", "u64", 0, (1 << 62) - 1)
    proof.assume(proof.domain.compare(">", n, Number("u32", 0)))
    result = proof.call("TokenLine::take", line, word, at, n)
    short = result.payloads["Err"][0]
    lacks = both(result.is_("Err"), short.is_("Short"))
    proof.assume(lacks)
    needed = short.payloads["Short"][0]
    then = proof.machine.wrapping(None, "+", at, later, None)
    again = proof.call("TokenLine::take", line, word, then, n)
    compare = proof.domain.compare
    proof.claim(implies(compare("==", later, needed), again.is_("Ok")), "the units suffice")
    proof.claim(implies(compare("<", later, needed), again.is_("Err")), "fewer do not")
    proof.fails_as(
        TOKEN_LINE
        + """\
    let Err(TakeError::Short(needed)) = line.take({word}, {at}, {n}) else {{ panic!("not short") }};
    assert_eq!(line.take({word}, {at}_u64.wrapping_add({later}), {n}).is_ok(), {later} >= needed, "{{needed}}");
"""
    )


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def take_of_nothing_changes_nothing(proof):
    """A take of 0 tokens, and any take under a quota without a limit, succeeds and leaves the word as it is."""
    line, quota = token_line(proof, unlimited=True)
    word, at, n = proof.number("word", "u64"), proof.number("at", "u64"), proof.number("n", "u32")
    compare = proof.domain.compare
    proof.assume(either(compare("==", n, Number("u32", 0)), compare("==", quota.fields["window"], Number("u64", 0))))
    result = proof.call("TokenLine::take", line, word, at, n)
    proof.claim(result.is_("Ok"), "it succeeds")
    proof.claim(compare("==", result.payloads["Ok"][0], word), "the word stays")
    proof.fails_as(TOKEN_LINE + "    assert_eq!(line.take({word}, {at}, {n}), Ok({word}));\n")


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def oversized_take_stays_within_the_deepest_debt(proof):
    """A take that may exceed the burst does so only from a full bucket, and never beyond the deepest debt."""
    line, bits, word, at, n = setting(proof)
    proof.assume(proof.domain.compare(">", n, Number("u32", 0)))
    result = proof.call("TokenLine::take_oversized", line, word, at, n)
    after, taken = result.payloads["Ok"][0], result.is_("Ok")
    before, behind = plain(proof, debt(proof, word, at)), plain(proof, debt(proof, after, at))
    deepest = plain(proof, line.fields["timeline"].fields["deepest_debt"]) * 2**bits
    full = plain(proof, line.fields["full"])
    proof.claim(implies(taken, behind == before + units(proof, n, bits)), "it costs exactly its tokens")
    proof.claim(implies(taken, behind <= deepest), "the debt is at most the deepest")
    proof.claim(implies(both(taken, behind > full), before == 0), "beyond a burst it starts from a full bucket")
    proof.fails_as(
        TOKEN_LINE
        + """\
    if let Ok(after) = line.take_oversized({word}, {at}, {n}) {{
        let behind = TokenLine::debt(after, {at});
        assert!(behind <= line.timeline().units(line.timeline().deepest_debt()), "{{behind}}");
    }}
"""
    )


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def take_up_to_takes_the_most_that_fit(proof):
    """`take_up_to` takes no more than asked, leaves at most a burst of debt unless it takes nothing, and one more token would not fit."""
    line, bits, word, at, n = setting(proof)
    taken, after = proof.call("TokenLine::take_up_to", line, word, at, n).parts
    compare = proof.domain.compare
    before, behind = plain(proof, debt(proof, word, at)), plain(proof, debt(proof, after, at))
    full, some = plain(proof, line.fields["full"]), compare(">", taken, Number("u32", 0))
    proof.claim(compare("<=", taken, n), "no more than asked")
    proof.claim(implies(some, both(behind <= full, behind == before + units(proof, taken, bits))), "it costs what it takes, within a burst")
    proof.claim(implies(negated(some), compare("==", after, word)), "what takes nothing writes nothing")
    more = before + (plain(proof, taken) + 1) * 2**bits
    proof.claim(implies(compare("<", taken, n), more > full), "one more would not fit")
    proof.fails_as(
        TOKEN_LINE
        + """\
    let (taken, after) = line.take_up_to({word}, {at}, {n});
    assert!(taken <= {n} && (taken == 0 || TokenLine::debt(after, {at}) <= line.timeline().units(quota.burst_size().into())));
"""
    )


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def charge_books_the_most_before_the_deepest_debt(proof):
    """A charge books no more than asked and never beyond the deepest debt, costs what it books, and one more token would not fit."""
    line, bits, word, at, n = setting(proof)
    booked, after = proof.call("TokenLine::charge", line, word, at, n).parts
    compare = proof.domain.compare
    before, behind = plain(proof, debt(proof, word, at)), plain(proof, debt(proof, after, at))
    deepest = plain(proof, line.fields["timeline"].fields["deepest_debt"]) * 2**bits
    some = compare(">", booked, Number("u32", 0))
    proof.claim(compare("<=", booked, n), "no more than asked")
    proof.claim(implies(some, both(behind <= deepest, behind == before + units(proof, booked, bits))), "it costs what it books, within the deepest debt")
    proof.claim(implies(negated(some), compare("==", after, word)), "what books nothing writes nothing")
    more = before + ((plain(proof, booked) + 1) * 2**bits)
    proof.claim(implies(compare("<", booked, n), more > deepest), "one more would not fit")
    proof.fails_as(
        TOKEN_LINE
        + """\
    let (booked, after) = line.charge({word}, {at}, {n});
    let deepest = line.timeline().units(line.timeline().deepest_debt());
    assert!(booked <= {n} && (booked == 0 || TokenLine::debt(after, {at}) <= deepest), "{{booked}}");
"""
    )


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def reservation_stays_within_the_deepest_debt(proof):
    """A reservation costs exactly its tokens, and the debt stays at most the deepest, whatever its wait is."""
    line, bits, word, at, n = setting(proof)
    longest = struct_ticks(proof, "longest")
    proof.assume(proof.domain.compare(">", n, Number("u32", 0)))
    proof.instead("wait", lambda machine, frame, args: struct_ticks(proof, "wait"))
    result = proof.call("TokenLine::reserve", line, word, at, n, longest)
    after, taken = result.payloads["Ok"][0], result.is_("Ok")
    before, behind = plain(proof, debt(proof, word, at)), plain(proof, debt(proof, after, at))
    deepest = plain(proof, line.fields["timeline"].fields["deepest_debt"]) * 2**bits
    proof.claim(implies(taken, both(behind <= deepest, behind == before + units(proof, n, bits))), "it costs its tokens, within the deepest debt")
    proof.fails_as(
        TOKEN_LINE
        + """\
    if let Ok(after) = line.reserve({word}, {at}, {n}, Ticks::new({longest})) {{
        assert!(TokenLine::debt(after, {at}) <= line.timeline().units(line.timeline().deepest_debt()));
    }}
"""
    )


def struct_ticks(proof, name):
    if name in proof.inputs:
        return Struct("Ticks", [], {"0": proof.inputs[name]})
    return Struct("Ticks", [], {"0": proof.number(name, "u64")})


# CLAIM: RateLimiter
@proved("tokens", INTEGERS, cases=EACH["limiter"])
def roll_back_mints_nothing(proof):
    """A roll-back lowers the debt by at most its tokens less what was refilled since, and never makes a bucket fuller than full."""
    line, bits, word, at, n = setting(proof)
    since = proof.number("since", "u64")
    for name in ("take_back", "roll_back"):
        after = proof.call(f"TokenLine::{name}", line, word, at, n, since)
        before, behind = plain(proof, debt(proof, word, at)), plain(proof, debt(proof, after, at))
        repaid = plain(proof, debt(proof, at, since))
        cost = units(proof, n, bits)
        least = z3.If(cost > repaid, cost - repaid, 0)
        proof.claim(behind <= before, f"{name}: the debt does not grow")
        proof.claim(behind >= before - least, f"{name}: no more is given back than was not refilled")
        proof.claim(implies(before > 0, before - behind == proof.wide(proof.machine.wrapping(None, "-", word, after, None))), f"{name}: the word is not put behind the position")
        proof.claim(implies(before == 0, proof.term(after) == proof.term(word)), f"{name}: a full bucket stays as it is")
    proof.fails_as(
        TOKEN_LINE
        + """\
    let after = line.take_back({word}, {at}, {n}, {since});
    let (before, behind) = (TokenLine::debt({word}, {at}), TokenLine::debt(after, {at}));
    let given = (u128::from({n}_u32) << line.timeline().fraction_bits()).saturating_sub(TokenLine::debt({at}, {since}).into());
    assert!(behind <= before && u128::from(before - behind) <= given, "{{before}} became {{behind}}");
"""
    )


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def roll_back_undoes_a_take(proof):
    """A take and its roll-back at the same position leave the debt as it was."""
    line, bits, word, at, n = setting(proof)
    result = proof.call("TokenLine::take", line, word, at, n)
    proof.assume(result.is_("Ok"))
    back = proof.call("TokenLine::roll_back", line, result.payloads["Ok"][0], at, n, at)
    proof.claim(proof.term(debt(proof, back, at)) == proof.term(debt(proof, word, at)), "the debt is as it was")
    proof.fails_as(
        TOKEN_LINE
        + """\
    let taken = line.take({word}, {at}, {n}).unwrap();
    assert_eq!(TokenLine::debt(line.roll_back(taken, {at}, {n}, {at}), {at}), TokenLine::debt({word}, {at}));
"""
    )


# CLAIM: RateLimiter
@proved("tokens", INTEGERS, cases=EACH["limiter"])
def refund_fills_at_most_to_full(proof):
    """A refund gives back at most its tokens and at most what is missing, says how many, rounded up, and overfills no bucket."""
    line, bits, word, at, n = setting(proof)
    given, after = proof.call("TokenLine::give_back", line, word, at, n).parts
    before, behind = plain(proof, debt(proof, word, at)), plain(proof, debt(proof, after, at))
    back = before - behind
    cost = units(proof, n, bits)
    proof.claim(behind <= before, "the debt does not grow")
    proof.claim(back == z3.If(cost < before, cost, before), "it is the tokens, or all that is missing")
    proof.claim(proof.domain.compare("<=", given, n), "no more tokens than asked")
    said = units(proof, given, bits)
    proof.claim(both(said >= back, said - back < 2**bits), "tokens are rounded up")
    proof.fails_as(
        TOKEN_LINE
        + """\
    let (given, after) = line.give_back({word}, {at}, {n});
    assert!(given <= {n} && TokenLine::debt(after, {at}) <= TokenLine::debt({word}, {at}), "{{given}}");
"""
    )


# CLAIM: RateLimiter
@proved("tokens", INTEGERS, cases=EACH["limiter"])
def heal_never_mints(proof):
    """A word is healed only if it is beyond the deepest debt and the clock's step back together, and then owes the deepest debt, never less."""
    line, bits, word, at, _ = setting(proof, n=False)
    skew = proof.number("skew", "u64")
    proof.instead("saturating_units", lambda machine, frame, args: skew)
    healed = proof.call("TokenLine::heal", line, word, at, clock(proof))
    there = healed.is_("Some")
    before, behind = plain(proof, debt(proof, word, at)), plain(proof, debt(proof, healed.payloads["Some"][0], at))
    ever = plain(proof, line.fields["timeline"].fields["deepest_ever"]) * 2**bits
    deepest = plain(proof, line.fields["timeline"].fields["deepest_debt"]) * 2**bits
    proof.claim(implies(there, before > ever + plain(proof, skew)), "only a debt that no call can have made is healed")
    proof.claim(implies(there, both(behind == ever, behind >= deepest)), "it owes the deepest debt of all quotas")
    proof.claim(implies(there, behind < before), "the debt becomes smaller")
    proof.fails_as(
        TOKEN_LINE
        + """\
    if let Some(healed) = line.heal({word}, {at}, &Steady({max_step_back})) {{
        assert_eq!(TokenLine::debt(healed, {at}), {deepest_ever} << line.timeline().fraction_bits());
        assert!(TokenLine::debt(healed, {at}) < TokenLine::debt({word}, {at}));
    }}
"""
    )


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def legal_debts_are_never_healed(proof):
    """No debt that a take, a charge or a reservation can leave is healed by a thread whose clock lags by no more than it may."""
    line, bits, word, at, n = setting(proof)
    skew = proof.number("skew", "u64", 0, (1 << 62) - 1)
    proof.instead("saturating_units", lambda machine, frame, args: skew)
    behind = proof.number("lag", "u64")
    proof.assume(proof.domain.compare("<=", behind, skew))
    booked, after = proof.call("TokenLine::charge", line, word, at, n).parts
    proof.assume(proof.domain.compare(">", booked, Number("u32", 0)))
    earlier = proof.machine.wrapping(None, "-", at, behind, None)
    healed = proof.call("TokenLine::heal", line, after, earlier, clock(proof))
    proof.claim(healed.is_("None"), "it is not healed")
    proof.fails_as(
        TOKEN_LINE
        + """\
    let (_, after) = line.charge({word}, {at}, {n});
    assert_eq!(line.heal(after, {at}_u64.wrapping_sub({lag}), &Steady({max_step_back})), None);
"""
    )


@proved("tokens", INTEGERS, cases=EACH["limiter"])
def what_a_bucket_shows_is_rounded_to_the_safe_side(proof):
    """`remaining` is rounded down and can be taken, `level` and `below_zero` are rounded up, and none overflows."""
    line, bits, word, at, _ = setting(proof, n=False)
    owed = plain(proof, debt(proof, word, at))
    full, shift = plain(proof, line.fields["full"]), bits
    remaining = plain(proof, proof.call("TokenLine::remaining", line, word, at))
    left = z3.If(full > owed, full - owed, 0)
    one = 2**shift
    proof.claim(both(remaining * one <= left, left < (remaining + 1) * one), "what remains is rounded down")
    level = plain(proof, proof.call("TokenLine::level", line, word, at))
    proof.claim(implies(level < (1 << 32) - 1, both(level * one >= owed, level * one < owed + one)), "the level is rounded up")
    below = plain(proof, proof.call("TokenLine::below_zero", line, word, at))
    missing = z3.If(owed > full, owed - full, 0)
    proof.claim(both(below * one >= missing, below * one < missing + one), "the debt below zero is rounded up")
    proof.fails_as(TOKEN_LINE + "    let _ = (line.remaining({word}, {at}), line.level({word}, {at}), line.below_zero({word}, {at}));\n")
