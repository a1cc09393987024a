// SPDX-License-Identifier: BSD-3-Clause
// Parameters: rows, defaults, ranges and help texts agree; each refusal explains itself in full.
#include "base/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace adaptib {
namespace {

using Row = opal_common_adaptib_parameter_t;

// The value of `row` inside `values`.
template <typename T> T& value_in(Parameters& values, const Row& row) {
    const auto offset = static_cast<const char*>(row.storage) -
                        reinterpret_cast<const char*>(&process_parameters());
    return *reinterpret_cast<T*>(reinterpret_cast<char*>(&values) + offset);
}

bool is_number(const Row& row) {
    return row.type == OPAL_COMMON_ADAPTIB_TYPE_INT || row.type == OPAL_COMMON_ADAPTIB_TYPE_SIZE;
}

struct Range {
    std::int64_t low = 0;
    std::int64_t high = 0;
};

Range range_of(const Row& row) {
    const std::string text = row.range;
    const std::size_t dots = text.find("..");
    EXPECT_NE(dots, std::string::npos) << row.name;
    return {std::stoll(text.substr(0, dots)), std::stoll(text.substr(dots + 2))};
}

std::vector<std::string> choices_of(const Row& row) {
    std::vector<std::string> choices{""};
    for (const char* c = row.range; *c != '\0'; ++c) {
        if (*c == '|') {
            choices.emplace_back();
        } else {
            choices.back() += *c;
        }
    }
    return choices;
}

// A free text: the last choice of its range shows the form and ends in "...".
bool is_free(const Row& row) {
    return row.type == OPAL_COMMON_ADAPTIB_TYPE_STRING &&
           std::string_view(row.range).ends_with("...");
}

void set_number(Parameters& values, const Row& row, std::int64_t number) {
    if (row.type == OPAL_COMMON_ADAPTIB_TYPE_INT) {
        value_in<int>(values, row) = static_cast<int>(number);
    } else {
        value_in<std::size_t>(values, row) = static_cast<std::size_t>(number);
    }
}

std::int64_t number_in(Parameters& values, const Row& row) {
    return row.type == OPAL_COMMON_ADAPTIB_TYPE_INT
               ? value_in<int>(values, row)
               : static_cast<std::int64_t>(value_in<std::size_t>(values, row));
}

// Expects a refusal that names the row, the value, the row's range and its default.
void expect_refused(const Parameters& values, const Row& row, const std::string& value) {
    std::string text;
    EXPECT_FALSE(check_parameters(values, text)) << row.name << " = " << value;
    EXPECT_NE(text.find(std::string("opal_common_adaptib_") + row.name + " "), std::string::npos)
        << text;
    EXPECT_NE(text.find('"' + value + '"'), std::string::npos) << text;
    EXPECT_NE(text.find(std::string("Allowed: ") + row.range), std::string::npos) << text;
    EXPECT_NE(text.find(std::string("default: ") + row.default_text), std::string::npos) << text;
}

// Expects no refusal because of the row's range; the pair checks may refuse.
void expect_in_range(const Parameters& values, const Row& row, const std::string& value) {
    std::string text;
    if (!check_parameters(values, text)) {
        EXPECT_EQ(text.find("Allowed:"), std::string::npos) << row.name << " = " << value << text;
    }
}

void expect_pair_refused(const Parameters& values, const std::string& name,
                         const std::string& value, const std::string& why) {
    std::string text;
    EXPECT_FALSE(check_parameters(values, text));
    EXPECT_NE(text.find("opal_common_adaptib_" + name + " "), std::string::npos) << text;
    EXPECT_NE(text.find('"' + value + '"'), std::string::npos) << text;
    EXPECT_NE(text.find(why), std::string::npos) << text;
}

void expect_accepted(const Parameters& values) {
    std::string text;
    EXPECT_TRUE(check_parameters(values, text)) << text;
}

// -------------------------------------------------------------------------------------------------
// The table

TEST(Parameters, DefaultsPass) {
    expect_accepted(default_parameters());
    expect_accepted(process_parameters());
}

TEST(Parameters, EveryFieldHasARowOfItsOwn) {
    std::set<const void*> storage;
    std::size_t bytes = 0;
    const auto* base = reinterpret_cast<const char*>(&process_parameters());
    for (const Row& row : parameter_table()) {
        const auto* at = static_cast<const char*>(row.storage);
        EXPECT_TRUE(base <= at && at < base + sizeof(Parameters)) << row.name;
        EXPECT_TRUE(storage.insert(row.storage).second) << row.name;
        switch (row.type) {
        case OPAL_COMMON_ADAPTIB_TYPE_INT: bytes += sizeof(int); break;
        case OPAL_COMMON_ADAPTIB_TYPE_SIZE: bytes += sizeof(std::size_t); break;
        case OPAL_COMMON_ADAPTIB_TYPE_DOUBLE: bytes += sizeof(double); break;
        case OPAL_COMMON_ADAPTIB_TYPE_STRING: bytes += sizeof(char*); break;
        }
    }
    // The rest of the structure is padding.
    EXPECT_LE(bytes, sizeof(Parameters));
    EXPECT_LT(sizeof(Parameters) - bytes, 6 * sizeof(std::size_t));
}

TEST(Parameters, NamesAreUniqueAndInLowerCase) {
    std::set<std::string> names;
    for (const Row& row : parameter_table()) {
        const std::string name = row.name;
        EXPECT_TRUE(names.insert(name).second) << name;
        ASSERT_FALSE(name.empty());
        EXPECT_TRUE(name.front() >= 'a' && name.front() <= 'z') << name;
        EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
                  std::string::npos)
            << name;
    }
}

TEST(Parameters, RowsAreComplete) {
    for (const Row& row : parameter_table()) {
        SCOPED_TRACE(row.name);
        EXPECT_GE(row.level, 0);
        EXPECT_LE(row.level, 9);
        EXPECT_STRNE(row.default_text, "");
        EXPECT_STRNE(row.range, "");
        ASSERT_NE(row.unit, nullptr);
        EXPECT_EQ(row.unit[0] != '\0', is_number(row)) << "a number counts something";
        const std::string help = row.help;
        ASSERT_GT(help.size(), 20u);
        EXPECT_TRUE(help.front() >= 'A' && help.front() <= 'Z') << help;
        EXPECT_EQ(help.back(), '.') << help;
        EXPECT_EQ(help.find("  "), std::string::npos) << help;
        EXPECT_EQ(help.find('\n'), std::string::npos) << help;
    }
}

TEST(Parameters, DefaultTextsAreTheDefaultsAndLieInTheirRanges) {
    Parameters values = default_parameters();
    for (const Row& row : parameter_table()) {
        SCOPED_TRACE(row.name);
        if (is_number(row)) {
            const Range range = range_of(row);
            const std::int64_t number = std::stoll(row.default_text);
            EXPECT_EQ(std::to_string(number), row.default_text);
            EXPECT_EQ(number_in(values, row), number);
            EXPECT_EQ(number_in(process_parameters(), row), number);
            EXPECT_LE(range.low, number);
            EXPECT_LE(number, range.high);
            EXPECT_LT(range.low, range.high);
            continue;
        }
        if (row.type == OPAL_COMMON_ADAPTIB_TYPE_DOUBLE) {
            const double number = std::stod(row.default_text);
            const Range range = range_of(row);
            EXPECT_EQ(value_in<double>(values, row), number);
            EXPECT_LE(static_cast<double>(range.low), number);
            EXPECT_LE(number, static_cast<double>(range.high));
            continue;
        }
        const std::vector<std::string> choices = choices_of(row);
        EXPECT_EQ(std::count(choices.begin(), choices.end(), row.default_text), 1);
        EXPECT_EQ(std::set<std::string>(choices.begin(), choices.end()).size(), choices.size());
        ASSERT_EQ(row.type, OPAL_COMMON_ADAPTIB_TYPE_STRING);
        EXPECT_STREQ(value_in<char*>(values, row), row.default_text);
        EXPECT_STREQ(value_in<char*>(process_parameters(), row), row.default_text);
        EXPECT_NE(static_cast<const char*>(value_in<char*>(process_parameters(), row)),
                  row.default_text)
            << "the process's strings may be freed";
    }
}

// The first sentence of a help text says what the parameter does, the second when to change it.
TEST(Parameters, HelpTextsSayWhenToChange) {
    constexpr std::array kWhen{"Set it ",   "Set it, ", "Set it: ",   "Raise it ",
                               "Lower it ", "Turn it ", "Change it ", "Leave it "};
    for (const Row& row : parameter_table()) {
        if (row.level == 0) {
            continue; // its help says what takes its place
        }
        const std::string help = row.help;
        const std::size_t end = help.find(". ");
        ASSERT_NE(end, std::string::npos) << row.name << ": one sentence only";
        const std::string second = help.substr(end + 2);
        EXPECT_TRUE(std::any_of(kWhen.begin(), kWhen.end(),
                                [&](const char* begin) { return second.starts_with(begin); }))
            << row.name << ": " << second;
    }
}

// A help text names no default or range but the row's own. Every other number in it is listed here.
TEST(Parameters, HelpTextsContradictNothing) {
    const std::map<std::string, std::set<std::string>> further{
        {"eager_limit", {"4096", "65536"}},
        {"ring_bytes", {"64", "256"}}, // of the pair checks
        {"verbs_ring_bytes", {"64"}},
        {"small_one_sided", {"64"}},                   // kMaxAssisted
        {"long_copies", {"64", "4"}},                  // kMinCooperative, kMaxCooperative
        {"gid_index", {"4", "2"}},                     // IPv4, RoCE v2
        {"if_include", {"1"}},                         // a port
        {"paths_per_port", {"2", "8"}},                // 2^LMC; kWorthwhile
        {"datagram_buffers", {"256", "1024"}},         // at the start
        {"frequent_buffers", {"128", "8", "5", "12"}}, // bytes, KiB; Linux
        {"accelerator_memory", {"5", "11", "7", "6"}}, // Open MPI, CUDA, ROCm
        {"traffic_class", {"2", "106", "26", "0"}},    // RoCE v2, its class and DSCP; other links
        {"endpoints", {"8"}},                          // processors
        {"partition", {"8001"}},                       // an example
        {"report", {"1", "0"}},                        // a switch's values
        {"trace_events", {"48"}},                      // bytes of a TraceEvent
        {"unexpected_memory", {"16", "1"}}, // MiB, GiB: the bounds of unexpected_memory()
    };
    for (const Row& row : parameter_table()) {
        if (row.level == 0) {
            continue;
        }
        SCOPED_TRACE(row.name);
        const std::string help = row.help;
        std::set<std::string> allowed{row.default_text};
        if (is_number(row)) {
            const Range range = range_of(row);
            allowed.insert({std::to_string(range.low), std::to_string(range.high)});
        }
        if (const auto found = further.find(row.name); found != further.end()) {
            allowed.insert(found->second.begin(), found->second.end());
            for (const std::string& number : found->second) {
                EXPECT_NE(help.find(number), std::string::npos) << "no longer in the help";
            }
        }
        std::string number;
        for (const char c : help + " ") {
            if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
                number += c;
            } else if (!number.empty()) {
                EXPECT_EQ(allowed.count(number), 1u) << number << " in: " << help;
                number.clear();
            }
        }
        if (const std::size_t at = help.find("efault"); at != std::string::npos) {
            EXPECT_NE(help.find(row.default_text, at), std::string::npos) << help;
        }
        if (row.type == OPAL_COMMON_ADAPTIB_TYPE_STRING) {
            for (const std::string& choice : choices_of(row)) {
                EXPECT_NE(help.find(choice), std::string::npos) << choice << " is not explained";
            }
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Ranges

TEST(Parameters, NumbersAreRefusedJustOutsideTheirRange) {
    int numbers = 0;
    for (const Row& row : parameter_table()) {
        if (!is_number(row)) {
            continue;
        }
        ++numbers;
        const Range range = range_of(row);
        for (const std::int64_t inside : {range.low, range.high}) {
            Parameters values = default_parameters();
            set_number(values, row, inside);
            expect_in_range(values, row, std::to_string(inside));
        }
        Parameters values = default_parameters();
        set_number(values, row, range.high + 1);
        expect_refused(values, row, std::to_string(range.high + 1));
        if (range.low > 0) {
            set_number(values, row, range.low - 1);
            expect_refused(values, row, std::to_string(range.low - 1));
        }
        if (row.type == OPAL_COMMON_ADAPTIB_TYPE_INT) {
            value_in<int>(values, row) = static_cast<int>(range.low - 1);
            expect_refused(values, row, std::to_string(range.low - 1));
            value_in<int>(values, row) = INT_MIN;
            expect_refused(values, row, std::to_string(INT_MIN));
        } else {
            value_in<std::size_t>(values, row) = SIZE_MAX;
            expect_refused(values, row, std::to_string(SIZE_MAX));
        }
    }
    EXPECT_GE(numbers, 9);
}

TEST(Parameters, StringsAreOneOfTheirChoices) {
    int strings = 0;
    for (const Row& row : parameter_table()) {
        if (row.type != OPAL_COMMON_ADAPTIB_TYPE_STRING) {
            continue;
        }
        ++strings;
        Parameters values = default_parameters();
        if (is_free(row)) {
            continue;
        }
        for (std::string choice : choices_of(row)) {
            value_in<char*>(values, row) = choice.data();
            expect_accepted(values);
            for (std::string wrong :
                 {choice + "x", choice.substr(1), choice.substr(0, choice.size() - 1), choice + " ",
                  choice + "|"}) {
                value_in<char*>(values, row) = wrong.data();
                expect_refused(values, row, wrong);
            }
        }
        for (std::string wrong : {std::string(row.range), std::string(), std::string("|")}) {
            value_in<char*>(values, row) = wrong.data();
            expect_refused(values, row, wrong);
        }
        value_in<char*>(values, row) = nullptr;
        expect_refused(values, row, "");
    }
    EXPECT_GE(strings, 2);
}

// The user of such a list checks its content: the table accepts any text that is not empty.
TEST(Parameters, FreeTextsAreTaken) {
    int texts = 0;
    for (const Row& row : parameter_table()) {
        if (!is_free(row)) {
            continue;
        }
        ++texts;
        Parameters values = default_parameters();
        for (std::string text : {row.default_text, "mlx5_0", "mlx5_0:1,mlx5_1", "x"}) {
            value_in<char*>(values, row) = text.data();
            expect_accepted(values);
        }
        char none[] = "";
        value_in<char*>(values, row) = none;
        expect_refused(values, row, "");
        value_in<char*>(values, row) = nullptr;
        expect_refused(values, row, "");
    }
    EXPECT_EQ(texts, 6);
}

TEST(Parameters, TheReportIsAWordASwitchOrADirectory) {
    for (const char* none : {"none", "0", "no", "false"}) {
        EXPECT_EQ(report_kind(none), ReportKind::none) << none;
    }
    for (const char* summary : {"summary", "1", "yes", "true"}) {
        EXPECT_EQ(report_kind(summary), ReportKind::summary) << summary;
    }
    EXPECT_EQ(report_kind("ranks"), ReportKind::ranks);
    EXPECT_EQ(report_kind("/tmp/reports"), ReportKind::directory);
}

TEST(Parameters, TheUnitIsSaid) {
    Parameters values = default_parameters();
    values.ring_bytes = 64;
    std::string text;
    EXPECT_FALSE(check_parameters(values, text));
    EXPECT_NE(text.find("4096..16777216 bytes;"), std::string::npos) << text;
    EXPECT_NE(text.find("OMPI_MCA_"), std::string::npos) << text;
}

// -------------------------------------------------------------------------------------------------
// Pairs

TEST(Parameters, ARingHoldsTwoOfTheLargestEagerMessages) {
    Parameters values = default_parameters();
    values.eager_limit = 8192;
    values.ring_bytes = 2 * 8192 + 256;
    expect_accepted(values);
    values.eager_limit = 8193;
    expect_pair_refused(values, "ring_bytes", "16640", "opal_common_adaptib_eager_limit (8193)");
    values.eager_limit = 8192;
    values.ring_bytes -= 64;
    expect_pair_refused(values, "ring_bytes", "16576", "opal_common_adaptib_eager_limit (8192)");
    values.eager_limit = 1048576;
    values.ring_bytes = 2 * 1048576 + 256;
    expect_accepted(values);
    values.eager_limit = 0;
    values.ring_bytes = 4096;
    expect_accepted(values);
    values.eager_limit = -1; // adapts to the ring
    expect_accepted(values);
    EXPECT_EQ(first_eager_limit(values), 2048u - 128u);
    values.ring_bytes = 131072;
    EXPECT_EQ(first_eager_limit(values), 4096u);
    values.eager_limit = 12345;
    EXPECT_EQ(first_eager_limit(values), 12345u);
}

TEST(Parameters, ARingIsAMultipleOfALine) {
    for (const std::size_t off : {1u, 8u, 63u}) {
        Parameters values = default_parameters();
        values.ring_bytes += off;
        expect_pair_refused(values, "ring_bytes", std::to_string(values.ring_bytes),
                            "multiple of 64");
    }
    Parameters values = default_parameters();
    values.ring_bytes += 64;
    expect_accepted(values);
}

TEST(Parameters, TheQueueIsAPowerOfTwo) {
    for (std::size_t size = 65536; size <= 67108864; size *= 2) {
        Parameters values = default_parameters();
        values.shm_queue_bytes = size;
        expect_accepted(values);
        if (size < 67108864) {
            values.shm_queue_bytes = size + 1;
            expect_pair_refused(values, "shm_queue_bytes", std::to_string(size + 1),
                                "power of two");
            values.shm_queue_bytes = size + size / 2;
            expect_pair_refused(values, "shm_queue_bytes", std::to_string(size + size / 2),
                                "power of two");
        }
    }
}

TEST(Parameters, NumbersOfEndpointsArePowersOfTwo) {
    Parameters values = default_parameters();
    std::string text;
    for (const int good : {0, 1, 2, 4, 8, 16}) {
        values.endpoints = good;
        EXPECT_TRUE(check_parameters(values, text)) << text;
    }
    for (const int bad : {3, 5, 6, 7, 9, 12, 15}) {
        values.endpoints = bad;
        expect_pair_refused(values, "endpoints", std::to_string(bad), "power of two");
    }
}

TEST(Parameters, TheSegmentHasRoomForQueueAndRings) {
    Parameters values = default_parameters();
    values.shm_queue_bytes = 8388608;
    values.ring_bytes = 131072;
    values.shm_segment_max = 8388608 + 2 * 8388608 + 2 * 131072;
    expect_accepted(values);
    --values.shm_segment_max;
    expect_pair_refused(values, "shm_segment_max", "25427967", "(8388608)");
}

TEST(Parameters, PartsOfOneAreRefusedOutsideTheirRange) {
    for (const double alpha : {-0.01, 1.01, 1e300, static_cast<double>(NAN)}) {
        Parameters values = default_parameters();
        values.adaptive_alpha = alpha;
        std::string text;
        EXPECT_FALSE(check_parameters(values, text)) << alpha;
        EXPECT_NE(text.find("adaptive_alpha"), std::string::npos) << text;
    }
    for (const double alpha : {0.0, 0.3, 1.0}) {
        Parameters values = default_parameters();
        values.adaptive_alpha = alpha;
        std::string text;
        EXPECT_TRUE(check_parameters(values, text)) << text;
    }
}

TEST(Parameters, ABatchIsAPartOfThePaths) {
    Parameters values = default_parameters();
    std::string text;
    values.bss_paths = 4;
    values.bss_batch = 4;
    EXPECT_TRUE(check_parameters(values, text)) << text;
    values.bss_batch = 5;
    EXPECT_FALSE(check_parameters(values, text));
    EXPECT_NE(text.find("bss_batch"), std::string::npos);
    EXPECT_NE(text.find("bss_paths (4)"), std::string::npos);
    values.bss_paths = 0; // all paths
    EXPECT_TRUE(check_parameters(values, text)) << text;
}

} // namespace
} // namespace adaptib
