// SPDX-License-Identifier: BSD-3-Clause
// The tables of parameters and counters as a component finds them, and the check of all values.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "base/parameters.h"
#include "common_adaptib.h"

namespace adaptib::test {
namespace {

class ParameterTable : public testing::Test {
protected:
    ParameterTable() : before_(process_parameters()) {}
    ~ParameterTable() override { process_parameters() = before_; }

    static const opal_common_adaptib_parameter_t* row(std::string_view name) {
        std::size_t count = 0;
        const auto* table = opal_common_adaptib_parameters(&count);
        for (std::size_t i = 0; i < count; ++i) {
            if (name == table[i].name) {
                return &table[i];
            }
        }
        return nullptr;
    }
    static std::string check() {
        char text[1024] = "";
        const int code = opal_common_adaptib_parameters_check(text, sizeof text);
        EXPECT_EQ(code,
                  text[0] == '\0' ? OPAL_COMMON_ADAPTIB_SUCCESS : OPAL_COMMON_ADAPTIB_BAD_PARAM);
        return text;
    }

private:
    Parameters before_;
};

TEST_F(ParameterTable, EachRowIsComplete) {
    std::size_t count = 0;
    const auto* table = opal_common_adaptib_parameters(&count);
    ASSERT_GT(count, 40u);
    std::set<std::string> names;
    std::set<const void*> places;
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(names.insert(table[i].name).second) << table[i].name;
        EXPECT_TRUE(places.insert(table[i].storage).second) << table[i].name;
        EXPECT_NE(table[i].storage, nullptr) << table[i].name;
        EXPECT_NE(table[i].unit, nullptr) << table[i].name;
        EXPECT_NE(table[i].range, nullptr) << table[i].name;
        EXPECT_STRNE(table[i].help, "") << table[i].name;
        EXPECT_GE(table[i].level, 0) << table[i].name;
        EXPECT_LE(table[i].level, 9) << table[i].name;
    }
}

// A component registers `storage`: what is stored there is what the core reads.
TEST_F(ParameterTable, StorageIsWhatTheCoreReads) {
    const auto* rails = row("shm_rails");
    ASSERT_NE(rails, nullptr);
    ASSERT_EQ(rails->type, OPAL_COMMON_ADAPTIB_TYPE_INT);
    *static_cast<int*>(rails->storage) = 5;
    EXPECT_EQ(process_parameters().shm_rails, 5);
    EXPECT_EQ(check(), "");
}

TEST_F(ParameterTable, ValuesOutOfRangeAreRefusedByName) {
    struct Case {
        const char* name;
        int value;
    };
    for (const Case bad :
         {Case{"shm_rails", 0}, Case{"shm_rails", 9}, Case{"shm_rails", -2147483647 - 1},
          Case{"connect_threshold", -1}, Case{"partition_timeout", 2147483647}}) {
        auto* value = static_cast<int*>(row(bad.name)->storage);
        const int before = *value;
        *value = bad.value;
        const std::string text = check();
        EXPECT_NE(text.find(std::string("opal_common_adaptib_") + bad.name), std::string::npos)
            << text;
        EXPECT_NE(text.find(std::to_string(bad.value)), std::string::npos) << text;
        EXPECT_NE(text.find(row(bad.name)->range), std::string::npos) << text;
        *value = before;
        EXPECT_EQ(check(), "");
    }
}

TEST_F(ParameterTable, TextsThatAreNoChoiceAreRefusedByName) {
    auto* value = static_cast<char**>(row("fabric")->storage);
    char wrong[] = "carrier-pigeon";
    char empty[] = "";
    for (char* each : {wrong, empty}) {
        *value = each;
        EXPECT_NE(check().find("opal_common_adaptib_fabric"), std::string::npos);
    }
}

TEST_F(ParameterTable, ARefusalFitsTheRoomThatItHas) {
    *static_cast<int*>(row("shm_rails")->storage) = 99;
    const std::string whole = check();
    ASSERT_GT(whole.size(), 40u);
    for (const std::size_t room : {std::size_t{1}, std::size_t{20}, whole.size()}) {
        std::string text(whole.size() + 2, '#');
        EXPECT_EQ(opal_common_adaptib_parameters_check(text.data(), room),
                  OPAL_COMMON_ADAPTIB_BAD_PARAM);
        EXPECT_EQ(std::string(text.c_str()), whole.substr(0, room - 1));
        EXPECT_EQ(text[room], '#') << "behind the room";
    }
    EXPECT_EQ(opal_common_adaptib_parameters_check(nullptr, 0), OPAL_COMMON_ADAPTIB_BAD_PARAM);
}

TEST(CounterTable, EachRowIsCompleteAndCanBeRead) {
    std::size_t count = 0;
    const auto* table = opal_common_adaptib_counters(&count);
    ASSERT_GT(count, 40u);
    std::set<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(names.insert(table[i].name).second) << table[i].name;
        EXPECT_NE(table[i].value, nullptr) << table[i].name;
        EXPECT_STRNE(table[i].unit, "") << table[i].name;
        EXPECT_STRNE(table[i].help, "") << table[i].name;
        EXPECT_GE(table[i].level, 1) << table[i].name;
        EXPECT_LE(table[i].level, 9) << table[i].name;
        EXPECT_TRUE(table[i].kind == OPAL_COMMON_ADAPTIB_COUNTER ||
                    table[i].kind == OPAL_COMMON_ADAPTIB_LEVEL ||
                    table[i].kind == OPAL_COMMON_ADAPTIB_VALUE);
    }
}

} // namespace
} // namespace adaptib::test
