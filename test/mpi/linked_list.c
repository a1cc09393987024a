// SPDX-License-Identifier: BSD-3-Clause
/*
 * Ranks build one linked list in a dynamic window; each rank appends elements of its own while the
 * others read and change them. Arguments: elements per rank (100), lists built (1), "pages" (each
 * element on a page of its own, in random order; needs osc_rdma_max_attach of as many elements).
 *
 * A rank attaches an element when it makes it, so the list of attached regions that Open MPI keeps
 * for each rank changes all the time while other ranks look up addresses in it: osc/rdma may then
 * hand the BTL the registration handle of another region than that of the address. Open MPI 5.0
 * searches that list without the lock under which it is changed (5.0.7), and then finds no region
 * (MPI_ERR_RMA_RANGE): there the ranks attach all elements before they begin the list.
 *
 * To append, a rank claims the tail's link by compare-and-swap of the 4-byte rank, then publishes
 * the 8-byte displacement by MPI_Fetch_and_op(MPI_REPLACE); a rank that loses the race reads the
 * displacement by MPI_Fetch_and_op(MPI_NO_OP) until it is set, and goes on from there. Each
 * operation has an epoch of its own. In the end every rank walks the list: each element is in it
 * exactly once.
 */
#include "check.h"

#include <stddef.h>

enum {
    NOBODY = -1
};

static const MPI_Aint NOWHERE = -1;

typedef struct {
    int rank;
    MPI_Aint at;
} link_t;

typedef struct {
    int value;
    link_t next;
} element_t;

static const bool attaches_first = OMPI_MAJOR_VERSION >= 5;

static MPI_Win window;

static MPI_Aint rank_of_link(link_t element)
{
    return MPI_Aint_add(element.at, offsetof(element_t, next) + offsetof(link_t, rank));
}

static MPI_Aint at_of_link(link_t element)
{
    return MPI_Aint_add(element.at, offsetof(element_t, next) + offsetof(link_t, at));
}

static void begin(int rank)
{
    MPI_Win_lock(MPI_LOCK_SHARED, rank, MPI_MODE_NOCHECK, window);
}

static void end(int rank)
{
    MPI_Win_unlock(rank, window);
}

static size_t page;       /* 0: MPI_Alloc_mem chooses the places of elements */
static element_t **slots; /* pages of elements not made yet, in random order */

static void slots_new(int elements)
{
    static uint64_t state = 1;
    char *pages = NULL;
    MPI_Alloc_mem((MPI_Aint) (page * ((size_t) elements + 1)), MPI_INFO_NULL, &pages);
    slots = calloc((size_t) elements + 1, sizeof *slots);
    state += (uint64_t) check_rank;
    for (int i = 0; i <= elements; ++i) {
        const int j = (int) random_below(&state, (uint64_t) i + 1);
        slots[i] = slots[j];
        slots[j] = (element_t *) (pages + (size_t) i * page);
    }
}

static element_t *element_new(int value, int index, link_t *where)
{
    element_t *element = NULL;
    if (page == 0) {
        MPI_Alloc_mem(sizeof *element, MPI_INFO_NULL, &element);
    } else {
        element = slots[index];
    }
    *element = (element_t){.value = value, .next = {.rank = NOBODY, .at = NOWHERE}};
    MPI_Win_attach(window, element, sizeof *element);
    where->rank = check_rank;
    MPI_Get_address(element, &where->at);
    return element;
}

/* Claims the tail's link for this rank. If the tail has a successor already, returns false and sets
 * `*found` to the successor's rank. */
static bool claim(link_t tail, int *found)
{
    const int nobody = NOBODY;
    begin(tail.rank);
    MPI_Compare_and_swap(&check_rank, &nobody, found, MPI_INT, tail.rank, rank_of_link(tail),
                         window);
    end(tail.rank);
    return *found == NOBODY;
}

static void publish(link_t tail, MPI_Aint at)
{
    MPI_Aint before = 0;
    begin(tail.rank);
    MPI_Fetch_and_op(&at, &before, MPI_AINT, tail.rank, at_of_link(tail), MPI_REPLACE, window);
    end(tail.rank);
    CHECK(before == NOWHERE, "a displacement was published twice: 0x%lx", (long) before);
}

static MPI_Aint successor(link_t element)
{
    MPI_Aint at = NOWHERE;
    while (at == NOWHERE) {
        begin(element.rank);
        MPI_Fetch_and_op(NULL, &at, MPI_AINT, element.rank, at_of_link(element), MPI_NO_OP, window);
        end(element.rank);
    }
    return at;
}

/* Appends the element that lies at `own`; returns the link to the tail. */
static link_t append(link_t tail, link_t own)
{
    int found = NOBODY;
    while (!claim(tail, &found)) {
        CHECK(found >= 0 && found < check_ranks, "a link names rank %d", found);
        tail = (link_t){.rank = found, .at = successor(tail)};
    }
    publish(tail, own.at);
    return own;
}

static void walk(link_t head, int elements)
{
    const int all = elements * check_ranks + 1;
    char *seen = calloc((size_t) all, 1);
    int count = 0;
    while (head.rank != NOBODY) {
        element_t element;
        begin(head.rank);
        MPI_Get(&element, sizeof element, MPI_BYTE, head.rank, head.at, sizeof element, MPI_BYTE,
                window);
        end(head.rank);
        CHECK(element.value >= 0 && element.value < all, "an element has the value %d",
              element.value);
        CHECK(!seen[element.value], "the element %d is in the list twice", element.value);
        seen[element.value] = 1;
        ++count;
        head = element.next;
    }
    CHECK(count == all, "the list has %d elements, expected %d", count, all);
    free(seen);
}

static void build(int elements)
{
    element_t **own = calloc((size_t) elements + 1, sizeof *own);
    link_t *links = calloc((size_t) elements + 1, sizeof *links);
    link_t head = {.rank = NOBODY, .at = NOWHERE};

    if (page != 0) {
        slots_new(elements);
    }
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (check_rank == 0) {
        own[elements] = element_new(elements * check_ranks, elements, &head);
    }
    for (int i = 0; i < elements && attaches_first; ++i) {
        own[i] = element_new(i * check_ranks + check_rank, i, &links[i]);
    }
    MPI_Bcast(&head, sizeof head, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    link_t tail = head;
    for (int i = 0; i < elements; ++i) {
        if (!attaches_first) {
            own[i] = element_new(i * check_ranks + check_rank, i, &links[i]);
        }
        tail = append(tail, links[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    walk(head, elements);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i <= elements; ++i) {
        if (own[i] != NULL) {
            MPI_Win_detach(window, own[i]);
            if (page == 0) {
                MPI_Free_mem(own[i]);
            }
        }
    }
    free(links);
    free(own);
    if (page != 0) {
        element_t *first = slots[0];
        for (int i = 1; i <= elements; ++i) {
            first = slots[i] < first ? slots[i] : first;
        }
        MPI_Free_mem(first);
        free(slots);
    }
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "linked_list", 2);
    const int elements = argc > 1 ? atoi(argv[1]) : 100;
    const int lists = argc > 2 ? atoi(argv[2]) : 1;
    page = argc > 3 && strcmp(argv[3], "pages") == 0 ? 4096 : 0;
    for (int i = 0; i < lists; ++i) {
        build(elements);
    }
    check_end();
    return 0;
}
