// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/advise/report_matrix.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

extern char** environ; // NOLINT: POSIX

namespace adaptib::advise {

namespace {

constexpr const char* kProgram = "adaptib_report";

// Path of the program beside this one; without such a program its name, for the search path.
std::string report_program() {
    std::array<char, PATH_MAX> self{};
    const ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
    const std::string path(self.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    const std::string beside = path.substr(0, path.rfind('/') + 1) + kProgram;
    return access(beside.c_str(), X_OK) == 0 ? beside : kProgram;
}

// Starts the program with its output in the pipe. Returns 0, or an errno.
int start(const std::string& directory, int output, pid_t& pid) {
    std::string program = report_program();
    std::string matrix = "--matrix";
    std::string standard_output = "-";
    std::string end_of_options = "--";
    std::string argument = directory;
    const std::array<char*, 6> arguments{program.data(),         matrix.data(),
                                         standard_output.data(), end_of_options.data(),
                                         argument.data(),        nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    const int code =
        posix_spawnp(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

void read_all(int from, std::string& out) {
    std::array<char, 65536> block;
    for (;;) {
        const ssize_t got = read(from, block.data(), block.size());
        if (got > 0) {
            out.append(block.data(), static_cast<std::size_t>(got));
        } else if (got == 0 || errno != EINTR) {
            return;
        }
    }
}

} // namespace

bool matrix_of_reports(const std::string& directory, std::string& out, std::string& error) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        error = std::string("a pipe: ") + std::strerror(errno);
        return false;
    }
    pid_t pid = 0;
    const int code = start(directory, ends[1], pid);
    close(ends[1]);
    std::string text;
    read_all(ends[0], text);
    close(ends[0]);
    if (code != 0) {
        error = std::string(kProgram) + " cannot be run: " + std::strerror(code) +
                "; install it beside this program, or give its --matrix with --traffic";
        return false;
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        error = std::string(kProgram) + " finds no traffic in " + directory;
        return false;
    }
    out = std::move(text);
    return true;
}

} // namespace adaptib::advise
