// SPDX-License-Identifier: BSD-3-Clause
// The file that a segment lives in, and memory for it.
//
// Purpose: the file is a memfd. Where the system does not give one (seccomp profiles of containers,
// kernels before 3.17) it is a file in /dev/shm, of its owner alone, that has lost its name, or
// never had one, before anything is in it. So nothing is left behind in either case, and peers open
// both by /proc/<pid>/fd. Memory is taken before it is used, so that running out of it is an error
// and not a signal: by fallocate, or, where that is refused, page by page.
// Threads: any.
// May touch: base/, the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/units.h"

namespace adaptib::shm {

struct SegmentFile {
    int fd = -1;
    bool in_dev_shm = false;
};

// An empty file. Errors: no_memory; not_supported where a person has to permit something.
// error_text says what.
Status open_segment_file(std::uint64_t job_key, std::uint32_t pid, SegmentFile& out,
                         std::string& error_text);

// Gets memory for the pages of [offset, offset + length), which lie within the file; what they hold
// stays, whoever else uses them or takes memory for them meanwhile. Returns 0 or an errno.
int commit_file(int fd, Bytes offset, Bytes length);

// The same for memory that is mapped, which need not be writable through a descriptor of this
// process.
// REQUIRES: `at` is the beginning of a page. Returns 0 or an errno.
int commit_mapped(std::byte* at, Bytes length);

// Takes the pages back: they are zero, and have no memory. REQUIRES: whole pages. False: the system
// does not do that, and nothing has changed.
bool discard_file(int fd, Bytes offset, Bytes length);

// Bytes of memory that the file has.
Bytes memory_of_file(int fd);

// Of the system: 4 KiB (kPage) or larger.
Bytes page_bytes();

// For a person: commit_file failed so.
std::string no_memory_text(const SegmentFile& file, int error);

} // namespace adaptib::shm
