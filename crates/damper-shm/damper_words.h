/* The layout of damper's words that programs share, from the constants of damper-core: `tools/words --c` prints this file. It has no
   functions. A field is (word >> SHIFT) & MASK. Read a word with an atomic load. Times are those of CLOCK_MONOTONIC. */
#ifndef DAMPER_WORDS_H
#define DAMPER_WORDS_H

#include <stdint.h>

/* The version that the header's first word has, if the words are laid out like this. */
#define DAMPER_LAYOUT_VERSION 1
/* The words of the header. */
#define DAMPER_HEADER_WORDS 8
/* The processes of a bulkhead, each with a byte of its word, the lowest first. */
#define DAMPER_BULKHEAD_SEATS 8
/* The nanoseconds of a unit of FULL AT in a limiter. */
#define DAMPER_LIMITER_UNIT_NS 64
/* The nanoseconds of a unit of a level in a table. */
#define DAMPER_TABLE_UNIT_NS 256
/* The MAGIC of the header's first word. */
#define DAMPER_HEADER_MAGIC UINT64_C(0x7265706d6164)

/* The word of a breaker that the program places. */
#define DAMPER_BREAKER_STATE_PAYLOAD_SHIFT 0
#define DAMPER_BREAKER_STATE_PAYLOAD_MASK UINT64_C(0x3ffffffffffff)
#define DAMPER_BREAKER_STATE_REOPENS_SHIFT 50
#define DAMPER_BREAKER_STATE_REOPENS_MASK UINT64_C(0x7)
#define DAMPER_BREAKER_STATE_GENERATION_SHIFT 53
#define DAMPER_BREAKER_STATE_GENERATION_MASK UINT64_C(0xff)
#define DAMPER_BREAKER_STATE_STATE_SHIFT 61
#define DAMPER_BREAKER_STATE_STATE_MASK UINT64_C(0x7)

/* The first word of a header. */
#define DAMPER_HEADER_VERSION_SHIFT 0
#define DAMPER_HEADER_VERSION_MASK UINT64_C(0xffff)
#define DAMPER_HEADER_MAGIC_SHIFT 16
#define DAMPER_HEADER_MAGIC_MASK UINT64_C(0xffffffffffff)

/* The word of a limiter. */
#define DAMPER_LIMITER_FULL_AT_SHIFT 0
#define DAMPER_LIMITER_FULL_AT_MASK UINT64_C(0xffffffffffffff)
#define DAMPER_LIMITER_TAG_SHIFT 56
#define DAMPER_LIMITER_TAG_MASK UINT64_C(0xff)

/* A nonce. */
#define DAMPER_TABLE_NONCES_COUNT_SHIFT 0
#define DAMPER_TABLE_NONCES_COUNT_MASK UINT64_C(0xfffff)
#define DAMPER_TABLE_NONCES_BLOCK_SHIFT 20
#define DAMPER_TABLE_NONCES_BLOCK_MASK UINT64_C(0x1fffff)

/* A slot of a table of words. */
#define DAMPER_TABLE_SLOT_LEVEL_SHIFT 0
#define DAMPER_TABLE_SLOT_LEVEL_MASK UINT64_C(0x1ffffffffff)
#define DAMPER_TABLE_SLOT_PROVISIONAL_SHIFT 41
#define DAMPER_TABLE_SLOT_PROVISIONAL_MASK UINT64_C(0x1)
#define DAMPER_TABLE_SLOT_FINGERPRINT_SHIFT 42
#define DAMPER_TABLE_SLOT_FINGERPRINT_MASK UINT64_C(0x3fffff)

#endif
