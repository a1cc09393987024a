// SPDX-License-Identifier: BSD-3-Clause
/*
 * Steps of several threads: each thread has a communicator of its own and runs steps there. Run one
 * thread after the other, they do the same (--serial), so a judge needs no threads.
 */
#include "mpi_fuzz/fuzz.h"

#include <pthread.h>

enum {
    THREADS = 4,
    STEPS = 3
};

typedef struct {
    step step;
    communicator where;
} lane;

static const kind kinds[] = {
    {"messages", 4, 0, false, ALWAYS, messages_start, messages_finish},
    {"wildcards", 2, 0, false, ALWAYS, wildcards_start, NULL},
    {"shifts", 1, 0, false, ALWAYS, shifts_start, NULL},
    {"truncation", 1, 0, false, ALWAYS, truncation_start, NULL},
    {"persistent", 1, 0, false, ALWAYS, persistent_start, NULL},
    {"collectives", 2, 0, false, ALWAYS, collectives_start, collectives_finish},
};

static const kind *choose(uint64_t *random)
{
    int ticket = below(random, 11);
    const kind *k = kinds;
    while (ticket >= k->weight) {
        ticket -= k->weight;
        ++k;
    }
    return k;
}

static void *run(void *argument)
{
    lane *l = argument;
    uint64_t seed = l->step.seed, random = seed_of(seed, 0);
    int number = l->step.number, count = 1 + below(&random, STEPS);
    for (int i = 0; i < count; ++i) {
        l->step.kind = choose(&random);
        l->step.seed = seed_of(seed, 10 + (uint64_t) i);
        l->step.number = number;
        log_words(&l->step, "%s", l->step.kind->name);
        l->step.kind->start(&l->step);
        if (l->step.kind->finish != NULL) {
            l->step.kind->finish(&l->step);
        }
    }
    return NULL;
}

void threads_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1);
    int count = 2 + below(&random, THREADS - 1);
    lane lanes[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < count; ++i) {
        lanes[i].step = *s;
        lanes[i].step.lane = i + 1;
        lanes[i].step.seed = seed_of(s->seed, 100 + (uint64_t) i);
        lanes[i].step.where = &lanes[i].where;
        communicator_copy(&lanes[i].where, s->where);
    }
    for (int i = 0; i < count; ++i) {
        if (fuzz_serial) {
            run(&lanes[i]);
        } else {
            CHECK(pthread_create(&threads[i], NULL, run, &lanes[i]) == 0, "no thread");
        }
    }
    for (int i = 0; i < count; ++i) {
        if (!fuzz_serial) {
            pthread_join(threads[i], NULL);
        }
    }
    for (int i = 0; i < count; ++i) {
        communicator_free(&lanes[i].where);
    }
}
