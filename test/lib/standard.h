// SPDX-License-Identifier: BSD-3-Clause
//
// Standard headers that most sources include: test/lib/build.sh precompiles them. No source
// includes this file.

#ifndef ADAPTIB_TEST_LIB_STANDARD_H
#define ADAPTIB_TEST_LIB_STANDARD_H

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#ifdef GTEST_HAS_PTHREAD // a flag of the tests only
#include <chrono>
#include <deque>
#include <map>
#include <thread>

#include <gtest/gtest.h>
#endif

#endif
