#![no_main]

libfuzzer_sys::fuzz_target!(|input: damper_fuzz::BreakerInput| damper_fuzz::breaker(input));
