// SPDX-License-Identifier: BSD-3-Clause
/*
 * Declarations shared by atomics.c, which executes, and atomics_check.c, which checks.
 */
#ifndef ADAPTIB_TEST_MPI_RMA_ATOMICS_H
#define ADAPTIB_TEST_MPI_RMA_ATOMICS_H

#include "mpi/rma/stress.h"

enum {
    WORDS_MAX = 700, /* of a region: more than one BTL atomic or one block of a page takes */
    FIRST = 96,      /* offset of the first region in bytes */
    UNTOUCHED = 255  /* the value of a swapped word that no actor has written */
};

typedef enum {
    SUMS,
    SWAPPED,
    CLAIMED,
    REGIONS
} region_kind;

typedef struct {
    region_kind region;
    int target, first, count;
    bool gets, alone, writes, requests; /* alone: by MPI_Fetch_and_op */
    uint64_t value;                     /* SUMS: operand; else the byte or the word to write */
} action;

/* The result of an operation, and limits for it. */
typedef struct outcome {
    struct outcome *next;
    action action;
    MPI_Request request;
    unsigned char *given, *got;
    uint64_t *own; /* SUMS: least value; SWAPPED: the actor's last value, or 0 */
} outcome;

/* The model's knowledge of one word. */
typedef struct {
    uint64_t sum;
    unsigned char written[32];      /* SWAPPED: bit mask of written values */
    unsigned char last[ACTORS_MAX]; /* SWAPPED: last value of each actor; 0: none */
    bool tried[ACTORS_MAX];         /* CLAIMED: actors that tried to claim the word */
} word_model;

typedef struct {
    window win;
    session session;
    const basic_type *type[REGIONS];
    const operation *sum;
    int words, actions;
    uint64_t key;
    word_model *model; /* [target][region][word] */
    outcome *outcomes[THREADS_MAX];
} atomics;

static inline word_model *model_of(const atomics *a, int target, region_kind region, int word)
{
    return &a->model[(target * REGIONS + region) * a->words + word];
}

static inline size_t region_at(const atomics *a, region_kind region)
{
    return FIRST + (size_t) region * (size_t) ((a->words * 8 + 64 + 23) / 24 * 24);
}

/* The number of values that one actor has to itself. No actor has 0 or UNTOUCHED. */
static inline int values_of_each(void)
{
    return 254 / actors();
}

static inline int writer_of(int value)
{
    return (value - 1) / values_of_each();
}

/* Checks results and final contents. Collective; to be called behind the last operation. */
void atomics_check(atomics *a);

#endif /* ADAPTIB_TEST_MPI_RMA_ATOMICS_H */
