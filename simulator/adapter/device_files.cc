// SPDX-License-Identifier: BSD-3-Clause
// Library for LD_PRELOAD: lets programs find a device file for each virtual device.
//
// Purpose: UCX takes a device only if /dev/infiniband/uverbsN is there. The library answers
// for these names with /dev/null; all other names go to the C library.
#include <dlfcn.h>
#include <sys/stat.h>

#include <cstring>

namespace {

const char* replaced(const char* path) {
    constexpr char kPrefix[] = "/dev/infiniband/uverbs";
    return path != nullptr && std::strncmp(path, kPrefix, sizeof kPrefix - 1) == 0 ? "/dev/null"
                                                                                   : path;
}

template <typename Function> Function next(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

int stat(const char* path, struct stat* result) {
    return next<int (*)(const char*, struct stat*)>("stat")(replaced(path), result);
}

int access(const char* path, int mode) {
    return next<int (*)(const char*, int)>("access")(replaced(path), mode);
}

} // extern "C"
