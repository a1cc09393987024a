// SPDX-License-Identifier: BSD-3-Clause
// The choice of a mutant at run time (README.md): sources with mutants include this.
//
//   ADAPTIB_MUTANT   number of the mutant that is on; none: the code is as it was. -1: none, and
//                    the process sets the byte of each mutant that it comes to in the file
//                    ADAPTIB_MUTANTS_REACHED, which has a byte for each
// Threads: any.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <type_traits>

namespace adaptib_mutation {

struct Choice {
    Choice() {
        if (const char* text = std::getenv("ADAPTIB_MUTANT")) {
            number = std::atoi(text);
        }
        const char* const path = std::getenv("ADAPTIB_MUTANTS_REACHED");
        const int file = number < 0 && path != nullptr ? open(path, O_RDWR | O_CLOEXEC) : -1;
        struct stat status {};
        if (file >= 0 && fstat(file, &status) == 0) {
            void* const memory = mmap(nullptr, static_cast<std::size_t>(status.st_size),
                                      PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            reached = memory == MAP_FAILED ? nullptr : static_cast<volatile char*>(memory);
        }
        if (file >= 0) {
            close(file);
        }
    }
    bool note(int mutant) const {
        if (reached != nullptr) {
            reached[mutant] = 1;
        }
        return false;
    }

    int number = 0;
    volatile char* reached = nullptr;
};

inline Choice choice;

// Constant expressions are as they were.
constexpr bool on(int mutant) {
    if (std::is_constant_evaluated()) {
        return false;
    }
    return choice.number == mutant || (choice.number < 0 && choice.note(mutant));
}

} // namespace adaptib_mutation
