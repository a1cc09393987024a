// SPDX-License-Identifier: BSD-3-Clause
#include "base/json_writer.h"

#include <gtest/gtest.h>

namespace adaptib::test {
namespace {

TEST(JsonWriter, NestsAndIndents) {
    JsonWriter json;
    json.begin_object();
    json.text("a", "b");
    json.number("n", -3);
    json.begin_array("list");
    json.begin_object();
    json.end_object();
    json.text("", "x");
    json.end_array();
    json.flag("f", true);
    json.end_object();
    EXPECT_EQ(json.result(), "{\n  \"a\": \"b\",\n  \"n\": -3,\n  \"list\": [\n    {},\n"
                             "    \"x\"\n  ],\n  \"f\": true\n}\n");
}

TEST(JsonWriter, EscapesWhatJsonForbids) {
    EXPECT_EQ(json_quoted("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
    EXPECT_EQ(json_quoted("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"");
    EXPECT_EQ(json_quoted("bad \xff\xc3 end\xc3"), "\"bad ?? end?\"") << "no UTF-8";
    EXPECT_EQ(json_quoted(""), "\"\"");
}

} // namespace
} // namespace adaptib::test
