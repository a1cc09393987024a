// SPDX-License-Identifier: BSD-3-Clause
/*
 * Reads the system's figures of this process or of the host, for measurements in MPI programs. Ends
 * the job if the system does not give a figure.
 *
 * May touch: mpi.h, the C library.
 */
#ifndef ADAPTIB_BENCH_PROC_VALUE_H
#define ADAPTIB_BENCH_PROC_VALUE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the KiB of the line "name: value kB" of a file like /proc/self/status. */
static inline double proc_value(const char* path, const char* name) {
    FILE* file = fopen(path, "r");
    char line[256];
    double value = -1;

    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        const size_t length = strlen(name);
        if (0 == strncmp(line, name, length) && ':' == line[length]) {
            value = strtod(line + length + 1, NULL);
        }
    }
    if (NULL == file || value < 0) {
        fprintf(stderr, "%s does not say %s\n", path, name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fclose(file);
    return value;
}

#endif
