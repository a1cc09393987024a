// SPDX-License-Identifier: BSD-3-Clause
/*
 * Declarations that atomics.c, which executes, and atomics_check.c share.
 */
#ifndef ADAPTIB_TEST_MPI_RMA_ATOMICS_H
#define ADAPTIB_TEST_MPI_RMA_ATOMICS_H

#include "mpi/rma/stress.h"

enum {
    WORDS_MAX =
        700, /* of a region: more than one atomic operation, and than one block of a page, takes */
    FIRST = 96,     /* the first region begins behind so many bytes */
    UNTOUCHED = 255 /* the value of a swapped word that no actor has written */
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
    uint64_t value;                     /* of SUMS; else the byte or the word that is written */
} action;

/* What an operation returned, and what that may be. */
typedef struct outcome {
    struct outcome *next;
    action action;
    MPI_Request request;
    unsigned char *given, *got;
    uint64_t *own; /* SUMS: at least so much was there; SWAPPED: the actor's last value, or 0 */
} outcome;

/* What is known of one word. */
typedef struct {
    uint64_t sum;
    unsigned char written[32];      /* SWAPPED: bit mask of values */
    unsigned char last[ACTORS_MAX]; /* SWAPPED: of each actor; 0: none */
    bool tried[ACTORS_MAX];         /* CLAIMED */
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

/* The values of an actor: no other actor has them. 0 and UNTOUCHED are nobody's. */
static inline int values_of_each(void)
{
    return 254 / actors();
}

static inline int writer_of(int value)
{
    return (value - 1) / values_of_each();
}

/* Collective, behind the last operation: what came back, and what is there in the end. */
void atomics_check(atomics *a);

#endif /* ADAPTIB_TEST_MPI_RMA_ATOMICS_H */
