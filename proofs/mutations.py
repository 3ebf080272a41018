"""Changes of the code that a proof has to notice: a file, a text in it that occurs once, what replaces it, and the property."""


class Mutation:
    def __init__(self, file, name, old, new, property):
        self.file, self.name, self.old, self.new, self.property = file, name, old, new, property

    def apply(self, text):
        if text.count(self.old) != 1:
            raise SystemExit(f"proofs/run: {self.file}: the mutation {self.name!r} applies {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)


TOKENS, WINDOWS, TIMELINE = "limit/token_bucket/line.rs", "limit/windows/line.rs", "quota/timeline.rs"

ALL = [
    Mutation(TOKENS, "a take may owe more than a burst", "if after <= self.full {", "if after <= self.full + 1 {", "take_keeps_the_envelope"),
    Mutation(
        TOKENS,
        "the cost is compared after the shift, which loses its high bits",
        "} else if n as u64 > self.full >> self.timeline.fraction_bits() {",
        "} else if self.units(n) > self.full {",
        "take_keeps_the_envelope",
    ),
    Mutation(TOKENS, "a refusal lacks one unit less", "Err(TakeError::Short(after - self.full))", "Err(TakeError::Short(after - self.full - 1))", "missing_units_are_the_fewest_that_suffice"),
    Mutation(TOKENS, "a bucket that owes half a circle is full", "if ahead > 0 { ahead as u64 } else { 0 }", "if ahead >= 0 { ahead as u64 + 1 } else { 0 }", "debt_is_how_far_the_word_lies_ahead"),
    Mutation(TOKENS, "an oversized take needs no full bucket", "                0 => Ok(at.wrapping_add(self.units(n))),", "                0..=9 => Ok(at.wrapping_add(self.units(n))),", "oversized_take_stays_within_the_deepest_debt"),
    Mutation(TOKENS, "a roll-back forgets what was refilled", "let back = self.units(n).saturating_sub(repaid);", "let back = self.units(n);", "roll_back_mints_nothing"),
    Mutation(TOKENS, "a roll-back overfills", "word.wrapping_sub(if back < owed { back } else { owed })", "word.wrapping_sub(back)", "roll_back_mints_nothing"),
    Mutation(TOKENS, "a charge ignores the debt", ".saturating_sub(owed) >> self.timeline.fraction_bits();", " >> self.timeline.fraction_bits();", "charge_books_the_most_before_the_deepest_debt"),
    Mutation(TOKENS, "a refund compares units that lost their high bits", "if n as u64 > missing >> self.timeline.fraction_bits() { missing } else { self.units(n) }", "if self.units(n) > missing { missing } else { self.units(n) }", "refund_fills_at_most_to_full"),
    Mutation(TOKENS, "a heal fills the bucket", "is_stale.then(|| at.wrapping_add(self.timeline.deepest_ever()))", "is_stale.then(|| at)", "heal_never_mints"),
    Mutation(TIMELINE, "a heal forgets the step back", "units > self.deepest_ever().saturating_add(skew)", "units > self.deepest_ever()", "legal_debts_are_never_healed"),
    Mutation(TOKENS, "what remains is rounded up", "(left >> self.timeline.fraction_bits()) as u32", "left.div_ceil(1 << self.timeline.fraction_bits()) as u32", "what_a_bucket_shows_is_rounded_to_the_safe_side"),
    Mutation(WINDOWS, "an earlier reading opens its own window", "if passed >= 0 {", "if passed >= -1 {", "window_that_counts_is_never_an_earlier_one"),
    Mutation(WINDOWS, "a window ends a unit late", "let rest = window - (at & (window - 1));", "let rest = window - (at & (window - 1)) + 1;", "window_that_counts_is_never_an_earlier_one"),
    Mutation("limit/sliding_counter.rs", "the previous window counts to its end", "self.window.ends_in.min(line.window()) - 1;", "self.window.ends_in.min(line.window());", "sliding_counter_never_counts_beyond_its_limit"),
    Mutation(TIMELINE, "a wait is a tick short", "Ticks::new(if self.scale().brings(ticks, units, part) { ticks } else { ticks + 1 })", "Ticks::new(if self.scale().brings(ticks, units, part) { ticks } else { ticks })", "wait_is_the_least_that_suffices"),
    Mutation(TIMELINE, "a wait is a tick too long", "Ticks::new(if self.scale().brings(ticks, units, part) { ticks } else { ticks + 1 })", "Ticks::new(if self.scale().brings(ticks, units, part) { ticks + 1 } else { ticks + 1 })", "wait_is_the_least_that_suffices"),
    Mutation(TIMELINE, "a bent line drops a whole unit", "start: position.wrapping_add(is_whole as u64),", "start: position,", "bent_line_gives_nothing_twice"),
    Mutation(TIMELINE, "a bent line counts its part twice", "behind: (brought as u128 - ticks as u128 * tick) as u64,", "behind: brought,", "bent_line_gives_nothing_twice"),
    Mutation(TIMELINE, "a tick may be five units", "(brought << bits).div_ceil(UNITS_PER_TICK) > ticks {\n        bits -= 1;", "(brought << bits).div_ceil(5) > ticks {\n        bits -= 1;", "fraction_bits_leave_room_for_the_debt"),
    Mutation("time/scale.rs", "a rate is rounded down", "if remainder > 0 {\n            quotient += 1;", "if remainder > ticks {\n            quotient += 1;", "ratio_is_the_least_fraction_that_suffices"),
    Mutation("time/scale.rs", "an inverse is rounded down", "let mult = (1u128 << exponent).div_ceil(self.mult as u128);", "let mult = (1u128 << exponent) / (self.mult as u128);", "inverse_is_rounded_up_by_less_than_one"),
    Mutation("time/scale.rs", "the part of a unit is dropped", "(product >> (self.shift & MAX_SHIFT)) as u64 + is_whole as u64 >= units", "(product >> (self.shift & MAX_SHIFT)) as u64 >= units || is_whole && units == 0", "brings_is_exact"),
    Mutation("breaker/state_word.rs", "reopenings do not stop", "reopens.min(W::LAYOUT.max_reopens()), phase)", "reopens, phase)", "transition_counts_generation_and_reopens"),
    Mutation("breaker/state_word.rs", "a generation leaks", "generation.put(generation.into())", "generation.put(generation.into() | 1)", "state_survives_packing"),
    Mutation("keyed/table/slots.rs", "a level changes the version", "Self(self.0 & !LEVEL.put(LEVEL.max()) | LEVEL.put(word))", "Self(self.0 & !LEVEL.put(LEVEL.max()) | LEVEL.put(word) | VERSION.put(1))", "slot_changes_only_the_field_that_it_names"),
    Mutation("quota/plan.rs", "an instant leads to the position after", "(beat.wrapping_sub(1) as i64).0 as u64).wrapping_add(1)", "(beat.wrapping_sub(0) as i64).0 as u64).wrapping_add(1)", "instant_leads_back_to_its_position"),
    Mutation("word32/line.rs", "a burst in 32 bits is exceeded", "if after <= self.full() { Take32", "if after <= self.full() + 1 { Take32", "take_in_32_bits_keeps_the_envelope"),
    Mutation("word32/line.rs", "a position forgets the carry of its lower half", "(now >> 32) * self.mult as u64 + (low >> 32)", "(now >> 32) * self.mult as u64", "position_in_32_bits_is_the_product_rounded_down"),
    Mutation("word32/line.rs", "a wait in 32 bits is rounded down", "(units as u64 * self.pace + ((1 << self.pace_shift) - 1)) >> self.pace_shift", "(units as u64 * self.pace) >> self.pace_shift", "wait_in_32_bits_is_never_too_short"),
    Mutation("limit/sliding_counter.rs", "a wait of a sliding counter is a unit short", "u128::from(count.max(1)) + 1;", "u128::from(count.max(1)) + 2;", "wait_of_a_sliding_counter_is_the_least_that_suffices"),
    Mutation("limit/sliding_counter.rs", "a wait of a sliding counter is a unit too long", "u128::from(count.max(1)) + 1;", "u128::from(count.max(1));", "wait_of_a_sliding_counter_is_the_least_that_suffices"),
    Mutation(TIMELINE, "the units for a wait forget its part of a unit", "{ more } else { brought.saturating_add(2) }", "{ more } else { more }", "units_for_a_wait_take_at_least_as_long"),
]
