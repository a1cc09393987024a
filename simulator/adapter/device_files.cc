// SPDX-License-Identifier: BSD-3-Clause
// Library for LD_PRELOAD: lets programs find a device file for each virtual device.
//
// Purpose: UCX takes a device only if /dev/infiniband/uverbsN can be opened. The library answers
// for these names with /dev/null; all other names go to the C library.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdarg>
#include <cstring>

namespace {

const char* replaced(const char* path) {
    constexpr char kPrefix[] = "/dev/infiniband/uverbs";
    return path != nullptr && std::strncmp(path, kPrefix, sizeof kPrefix - 1) == 0 ? "/dev/null"
                                                                                   : path;
}

template <typename Function>
Function next(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

int stat(const char* path, struct stat* result) {
    return next<int (*)(const char*, struct stat*)>("stat")(replaced(path), result);
}

int open(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return next<int (*)(const char*, int, ...)>("open")(replaced(path), flags, mode);
}

int access(const char* path, int mode) {
    return next<int (*)(const char*, int)>("access")(replaced(path), mode);
}

} // extern "C"
