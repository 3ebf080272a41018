#![no_main]

libfuzzer_sys::fuzz_target!(|input: damper_fuzz::LimiterInput| damper_fuzz::limiter(input));
