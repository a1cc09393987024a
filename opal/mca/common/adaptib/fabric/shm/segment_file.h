// SPDX-License-Identifier: BSD-3-Clause
// The file that holds a segment, and memory for it.
//
// Purpose: the file is a memfd. Where the system refuses one (seccomp profiles of containers,
// kernels before 3.17), it is a file in /dev/shm that only its owner may open, and that has lost
// its name, or never had one, before anything is in it. So neither leaves anything behind, and
// peers open both through /proc/<pid>/fd. Memory is taken before use, so that running out of it is
// an error and not a signal: by fallocate or, where the system refuses that, page by page.
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

// Creates an empty file. Errors: no_memory; not_supported: a person has to permit something.
// error_text says what.
Status open_segment_file(std::uint64_t job_key, std::uint32_t pid, SegmentFile& out,
                         std::string& error_text);

// Gets memory for the pages of [offset, offset + length), which lie within the file. Their contents
// stay, even if others use them or take memory for them meanwhile. Returns 0 or an errno.
int commit_file(int fd, Bytes offset, Bytes length);

// As above for mapped memory; this process needs no writable descriptor of it.
// REQUIRES: `at` is page-aligned. Returns 0 or an errno.
int commit_mapped(std::byte* at, Bytes length);

// Frees the pages: they become zero and have no memory. REQUIRES: whole pages. False: the system
// does not support that, and nothing has changed.
bool discard_file(int fd, Bytes offset, Bytes length);

// Bytes of memory that the file has.
Bytes memory_of_file(int fd);

// Page size of the system: 4 KiB (kPage) or more.
Bytes page_bytes();

// Text for a person: commit_file failed with this error.
std::string no_memory_text(const SegmentFile& file, int error);

} // namespace adaptib::shm
