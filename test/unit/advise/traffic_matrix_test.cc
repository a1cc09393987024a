// SPDX-License-Identifier: BSD-3-Clause
// Texts with a job's traffic: what is read from them, and clear words for those that are wrong.
#include "simulator/advise/traffic_matrix.h"

#include <gtest/gtest.h>

namespace adaptib::advise {
namespace {

TrafficMatrix read(const std::string& text) {
    TrafficMatrix matrix;
    std::string error;
    EXPECT_TRUE(parse_traffic(text, "t.csv", matrix, error)) << error;
    return matrix;
}

std::string error_of(const std::string& text) {
    TrafficMatrix matrix;
    matrix.ranks = 77;
    std::string error;
    EXPECT_FALSE(parse_traffic(text, "t.csv", matrix, error)) << text;
    EXPECT_EQ(matrix.ranks, 77u) << "nothing has changed";
    return error;
}

TEST(TrafficMatrix, CountsLongMessagesWhereTheyAreTold) {
    const TrafficMatrix matrix = read("rank,host\n0,a\n1,b\n2,a\n\n"
                                      "from,to,messages,bytes,long_messages,long_bytes\n"
                                      "1,0,10,1000,2,900\n"
                                      "0,2,5,50,0,0\n"
                                      "2,2,5,50,1,50\n");
    EXPECT_EQ(matrix.ranks, 3u);
    EXPECT_EQ(matrix.hosts, (std::vector<std::string>{"a", "b", "a"}));
    ASSERT_EQ(matrix.pairs.size(), 1u) << "the others have no long message, or are one rank";
    EXPECT_EQ(matrix.pairs[0].from, 1u);
    EXPECT_EQ(matrix.pairs[0].to, 0u);
    EXPECT_EQ(matrix.pairs[0].messages, 2u);
    EXPECT_EQ(matrix.bytes(), 900u);
}

TEST(TrafficMatrix, TakesAPlainTable) {
    const TrafficMatrix matrix = read("# by hand\r\nto,from,bytes,note\r\n3,0,5242880,x\r\n");
    EXPECT_EQ(matrix.ranks, 4u);
    EXPECT_TRUE(matrix.hosts.empty());
    ASSERT_EQ(matrix.pairs.size(), 1u);
    EXPECT_EQ(matrix.pairs[0].to, 3u);
    EXPECT_EQ(matrix.messages(), 5u) << "of a MiB, as their number is not known";
}

TEST(TrafficMatrix, SaysWhatIsWrong) {
    EXPECT_EQ(error_of(""), "t.csv:1: there is no table of traffic in it");
    EXPECT_NE(error_of("a,b\n1,2\n").find("t.csv:1: a table begins with"), std::string::npos);
    EXPECT_NE(error_of("from,to,bytes\n0,1,5\n0,2\n").find("t.csv:3: the row has 2 cells"),
              std::string::npos);
    EXPECT_NE(error_of("from,to,bytes\n0,x,5\n").find("to is a number from 0 to 2047, not \"x\""),
              std::string::npos);
    EXPECT_NE(error_of("from,to,bytes\n0,2048,5\n").find("not \"2048\""), std::string::npos);
    EXPECT_NE(error_of("from,to,bytes\n0,1,-5\n").find("bytes is a number"), std::string::npos);
    EXPECT_NE(error_of("from,to,bytes\n0,1,5\n0,1,6\n").find("have a row already"),
              std::string::npos);
    EXPECT_NE(error_of("from,to,bytes\n0,1,0\n").find("so no policy matters"), std::string::npos);
    EXPECT_NE(error_of("rank,host\n0,a\n2,c\n\nfrom,to,bytes\n0,2,5\n").find("names 2 of 3 ranks"),
              std::string::npos);
    EXPECT_NE(error_of("rank,host\n0,a\n0,b\n").find("rank 0 has a row already"),
              std::string::npos);
    EXPECT_NE(error_of("rank,host\n0,\n").find("rank 0 has no host"), std::string::npos);
}

TEST(TrafficMatrix, SurvivesEveryTruncation) {
    const std::string text = "rank,host\n0,a\n1,b\n\nfrom,to,messages,bytes\n0,1,10,1000\n";
    for (std::size_t length = 0; length < text.size(); ++length) {
        TrafficMatrix matrix;
        std::string error;
        if (!parse_traffic(text.substr(0, length), "t.csv", matrix, error)) {
            EXPECT_EQ(error.rfind("t.csv:", 0), 0u) << error;
        } else {
            EXPECT_GE(length, text.size() - 4) << "only digits of the last number are missing";
        }
    }
}

TEST(TrafficMatrix, NamesAFileThatIsNotThere) {
    TrafficMatrix matrix;
    std::string error;
    EXPECT_FALSE(read_traffic("/no/such/file", matrix, error));
    EXPECT_NE(error.find("/no/such/file"), std::string::npos);
}

} // namespace
} // namespace adaptib::advise
