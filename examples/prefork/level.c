/* Prints how many tokens are left in a limiter on shared words, with damper's layout and without damper.
     cc -I ../../crates/damper-shm -o level level.c
     ./level /proc/PID/fd/FD WORD LIMIT WINDOW_NANOSECONDS BURST */
#include <damper_words.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

int main(int count, char **arguments) {
    if (count != 6) return fprintf(stderr, "usage: level FILE WORD LIMIT WINDOW_NANOSECONDS BURST\n"), 2;
    size_t word = strtoull(arguments[2], NULL, 10);
    uint64_t limit = strtoull(arguments[3], NULL, 10), window = strtoull(arguments[4], NULL, 10), burst = strtoull(arguments[5], NULL, 10);
    int file = open(arguments[1], O_RDONLY);
    const uint64_t *words = mmap(NULL, (word + 1) * sizeof *words, PROT_READ, MAP_SHARED, file, 0);
    if (words == MAP_FAILED) return perror(arguments[1]), 1;
    uint64_t first = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
    if (((first >> DAMPER_HEADER_MAGIC_SHIFT) & DAMPER_HEADER_MAGIC_MASK) != DAMPER_HEADER_MAGIC
        || ((first >> DAMPER_HEADER_VERSION_SHIFT) & DAMPER_HEADER_VERSION_MASK) != DAMPER_LAYOUT_VERSION)
        return fprintf(stderr, "%s: not damper's words, or another version of them\n", arguments[1]), 1;

    uint64_t full_at = (__atomic_load_n(&words[word], __ATOMIC_RELAXED) >> DAMPER_LIMITER_FULL_AT_SHIFT) & DAMPER_LIMITER_FULL_AT_MASK;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t at = ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) / DAMPER_LIMITER_UNIT_NS;
    /* The time until the bucket is full, on a circle; in its second half the bucket has been full for a while. */
    uint64_t ahead = (full_at - at) & DAMPER_LIMITER_FULL_AT_MASK;
    if (ahead > DAMPER_LIMITER_FULL_AT_MASK / 2) ahead = 0;
    unsigned __int128 owed = ((unsigned __int128)ahead * DAMPER_LIMITER_UNIT_NS * limit + window - 1) / window;
    printf("%" PRIu64 "\n", owed < burst ? burst - (uint64_t)owed : 0);
    return 0;
}
