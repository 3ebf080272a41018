#![cfg_attr(fuzzing, no_main)]

damper_fuzz::target!(redis_keys);
