// SPDX-License-Identifier: BSD-3-Clause
#include "tools/process_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>

namespace adaptib {

namespace {

using FileFunction = std::function<void(std::uint32_t, const std::string&, std::string_view)>;

void look_into(std::uint32_t pid, const FileFunction& f) {
    const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
    DIR* files = opendir(folder.c_str());
    if (files == nullptr) {
        return; // the process is another user's, or gone
    }
    while (const dirent* entry = readdir(files)) {
        const std::string path = folder + "/" + entry->d_name;
        char target[256];
        const ssize_t n = readlink(path.c_str(), target, sizeof target);
        if (n > 0) {
            f(pid, path, {target, static_cast<std::size_t>(n)});
        }
    }
    closedir(files);
}

} // namespace

void for_each_open_file(std::optional<std::uint32_t> pid, const FileFunction& f) {
    DIR* processes = opendir("/proc");
    if (processes == nullptr) {
        return;
    }
    while (const dirent* entry = readdir(processes)) {
        const auto found = std::isdigit(static_cast<unsigned char>(entry->d_name[0])) != 0
                               ? number_of(entry->d_name, 10)
                               : std::nullopt;
        if (found && (!pid || *pid == *found)) {
            look_into(static_cast<std::uint32_t>(*found), f);
        }
    }
    closedir(processes);
}

// O_NONBLOCK: meanwhile the path may name a pipe.
int open_process_file(const std::string& path, int flags, bool of_any) {
    const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK);
    struct stat file {};
    if (fd < 0 ||
        (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && (of_any || file.st_uid == geteuid()))) {
        return fd;
    }
    close(fd);
    errno = ENOENT;
    return -1;
}

std::optional<std::uint64_t> number_of(const char* text, int base) {
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(text, &end, base);
    if (std::isxdigit(static_cast<unsigned char>(*text)) == 0 || *end != '\0' || errno != 0) {
        return std::nullopt;
    }
    return value;
}

} // namespace adaptib
