// SPDX-License-Identifier: BSD-3-Clause
/*
 * Windows of the four flavors, with guards around memory that this program allocates (create,
 * dynamic).
 */
#include "mpi/rma/stress.h"

static const int flavors[4] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE,
                               MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_DYNAMIC};
static const char *const names[4] = {"create", "allocate", "shared", "dynamic"};

int random_flavor(rng *random)
{
    return flavors[options.flavors[random_below(random, (uint64_t) options.flavor_count)]];
}

/* True if osc/rdma maps the memory of other ranks. (osc/sm always does, but has none of the faults
 * in stress.h.) */
static bool is_mapped(const window *w)
{
    return w->flavor == MPI_WIN_FLAVOR_ALLOCATE && stress_one_host;
}

bool swap_works(const window *w, int origin, int target, size_t size)
{
    bool local = is_mapped(w) || origin == target;
    return size != 8 || w->flavor == MPI_WIN_FLAVOR_SHARED || !local || with(WITH_LOCAL_SWAP);
}

bool long_swap_works(const window *w)
{
    return w->flavor == MPI_WIN_FLAVOR_SHARED || (is_mapped(w) && with(WITH_LOCAL_SWAP))
           || with(WITH_LONG_SWAP);
}

const char *flavor_name(int flavor)
{
    for (int i = 0; i < 4; ++i) {
        if (flavors[i] == flavor) {
            return names[i];
        }
    }
    return "?";
}

/* Allocates whole pages, so that a dynamic window's memory shares no page with other memory of this
 * process. */
static void make_block(window *w, size_t shift)
{
    size_t whole = w->bytes + shift + 2 * (size_t) CHECK_GUARD_BYTES;
    w->block_bytes = (whole + PAGE - 1) / PAGE * PAGE;
    if (posix_memalign((void **) &w->block, PAGE, w->block_bytes) != 0) {
        FAIL("no memory for a window of %zu bytes", w->bytes);
    }
    memset(w->block, CHECK_GUARD_VALUE, w->block_bytes);
    w->memory = w->block + CHECK_GUARD_BYTES + shift;
}

/* Chooses displacement units: equal ones between hosts, since Open MPI 4.1.4's osc/rdma takes the
 * wrong unit for a rank that is alone on its host if units differ. */
static void choose_units(window *w, int unit, rng *random)
{
    static const int units[] = {1, 8, 4, 2, 24, 1};
    bool differ = stress_one_host && one_in(random, 2);
    uint64_t first = random_next(random);
    for (int i = 0; i < stress_ranks; ++i) {
        uint64_t which = first + (differ ? (uint64_t) i : 0);
        w->unit[i] = w->flavor == MPI_WIN_FLAVOR_DYNAMIC ? 1 : unit > 0 ? unit : units[which % 6];
        w->base[i] = 0;
    }
}

static MPI_Info random_info(rng *random)
{
    static const char *const keys[][2] = {
        {"accumulate_ordering", "rar,raw,war,waw"},
        {"accumulate_ops", "same_op_no_op"},
        {"alloc_shared_noncontig", "true"},
    };
    MPI_Info info;
    uint64_t which = random_below(random, 6);
    if (which >= sizeof keys / sizeof keys[0]) {
        return MPI_INFO_NULL;
    }
    MPI_Info_create(&info);
    MPI_Info_set(info, keys[which][0], keys[which][1]);
    return info;
}

static void make_dynamic(window *w, MPI_Info info)
{
    MPI_Aint address;
    MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &w->win);
    MPI_Win_attach(w->win, w->memory, (MPI_Aint) w->bytes);
    MPI_Get_address(w->memory, &address);
    MPI_Allgather(&address, 1, MPI_AINT, w->base, 1, MPI_AINT, MPI_COMM_WORLD);
}

/* Requires the unified memory model, which a program needs that loads and stores beside operations
 * of other ranks. */
static void check_model(const window *w)
{
    int *model, found = 0;
    MPI_Win_get_attr(w->win, MPI_WIN_MODEL, &model, &found);
    if (!found || *model != MPI_WIN_UNIFIED) {
        FAIL("the memory model of this window is not MPI_WIN_UNIFIED");
    }
}

void window_make(window *w, int flavor, size_t bytes, int number, int unit, rng *random)
{
    memset(w, 0, sizeof *w);
    w->flavor = flavor;
    w->number = number;
    w->bytes = bytes;
    choose_units(w, unit, random);
    size_t shift = 8 * random_below(random, 8);
    MPI_Info info = random_info(random);
    unit = w->unit[stress_rank];
    MPI_Aint size = (MPI_Aint) bytes;
    step("making a window", number, (long) bytes);
    if (flavor == MPI_WIN_FLAVOR_CREATE) {
        make_block(w, shift);
        MPI_Win_create(w->memory, size, unit, info, MPI_COMM_WORLD, &w->win);
    } else if (flavor == MPI_WIN_FLAVOR_ALLOCATE) {
        MPI_Win_allocate(size, unit, info, MPI_COMM_WORLD, &w->memory, &w->win);
    } else if (flavor == MPI_WIN_FLAVOR_SHARED) {
        MPI_Win_allocate_shared(size, unit, info, MPI_COMM_WORLD, &w->memory, &w->win);
    } else {
        make_block(w, shift);
        make_dynamic(w, info);
    }
    if (info != MPI_INFO_NULL) {
        MPI_Info_free(&info);
    }
    watch_window(w->win);
    check_model(w);
    window_own_begin(w);
    memset(w->memory, CHECK_GUARD_VALUE, bytes);
    window_own_end(w);
    step("a window is made", number, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

void window_free(window *w)
{
    window_check_guards(w);
    step("freeing a window", w->number, 0);
    if (w->flavor == MPI_WIN_FLAVOR_DYNAMIC) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_detach(w->win, w->memory);
    }
    MPI_Win_free(&w->win);
    window_check_guards(w);
    free(w->block);
}

static void check_guard(const window *w, const unsigned char *from, const unsigned char *to)
{
    for (const unsigned char *at = from; at < to; ++at) {
        if (*at != CHECK_GUARD_VALUE) {
            FAIL("window %d (%s, %zu bytes): the byte at %ld was overwritten with 0x%02x",
                 w->number, flavor_name(w->flavor), w->bytes, (long) (at - w->memory), *at);
        }
    }
}

void window_check_guards(const window *w)
{
    if (w->block != NULL) {
        check_guard(w, w->block, w->memory);
        check_guard(w, w->memory + w->bytes, w->block + w->block_bytes);
    }
}

void window_own_begin(window *w)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, stress_rank, 0, w->win);
}

void window_own_end(window *w)
{
    MPI_Win_unlock(stress_rank, w->win);
}
