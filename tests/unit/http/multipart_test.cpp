#include "http/multipart.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::http {
namespace {

using base::Code;
using base::Error;

constexpr const char* kType = "multipart/form-data; boundary=XX";

std::string code_of(std::string_view type, std::string_view body) {
  try {
    parse_form(type, body);
  } catch (const Error& error) {
    return std::string(base::name(error.code()));
  }
  return "accepted";
}

TEST(Multipart, parts_come_as_they_were_sent) {
  const std::string body =
      "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--XX\r\ncontent-disposition: form-data; filename=\"a \\\"b\\\";c.txt\"; name=file\r\nContent-Type: "
      "x/y\r\n\r\n"
      "one\r\n--X\r\n\r\n--XY two\r\n"
      "--XX\r\nContent-Disposition: form-data; name=\"empty\"; filename=\"\"\r\n\r\n\r\n--XX--\r\n";
  for (const char* type : {kType, "Multipart/Form-Data; charset=utf-8; boundary=\"XX\""}) {
    const auto parts = parse_form(type, body);
    ASSERT_EQ(parts.size(), 3u);
    EXPECT_EQ(parts[0].name, "purpose");
    EXPECT_FALSE(parts[0].filename);
    EXPECT_EQ(parts[0].data, "batch");
    EXPECT_EQ(parts[1].name, "file");
    EXPECT_EQ(parts[1].filename, "a \"b\";c.txt");
    EXPECT_EQ(parts[1].data, "one\r\n--X\r\n\r\n--XY two");
    EXPECT_EQ(parts[2].filename, "");
    EXPECT_EQ(parts[2].data, "");
  }
}

TEST(Multipart, quotes_and_line_ends_of_a_name_may_be_escaped) {
  const auto parts = parse_form(kType,
                                "--XX\r\nContent-Disposition: form-data; name=\"a%22%0D%0Ab%20\"; "
                                "filename=\"%22%22\"\r\n\r\n\r\n--XX--");
  EXPECT_EQ(parts[0].name, "a\"\r\nb%20");
  EXPECT_EQ(parts[0].filename, "\"\"");
}

TEST(Multipart, what_is_not_of_the_form_is_refused) {
  const std::string head = "Content-Disposition: form-data; name=\"a\"\r\n\r\n";
  EXPECT_EQ(code_of(kType, "--XX\r\n" + head + "b\r\n--XX--"), "accepted");
  EXPECT_EQ(code_of("application/json", "{}"), "unsupported_media");
  EXPECT_EQ(code_of("", ""), "unsupported_media");
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"multipart/form-data", "--XX--"},
      {"multipart/form-data; boundary=", "--XX--"},
      {"multipart/form-data; boundary=\"XX", "--XX--"},
      {kType, ""},
      {kType, "--YY--"},
      {kType, "--XX"},
      {kType, "--XX\r\n"},
      {kType, "--XXjunk\r\n" + head + "b\r\n--XX--"},
      {kType, "--XX\r\n" + head + "b"},
      {kType, "--XX\r\n" + head + "b\r\n--XX"},
      {kType, "--XX\r\n\r\n\r\nb\r\n--XX--"},
      {kType, "--XX\r\nContent-Disposition: form-data\r\n\r\nb\r\n--XX--"},
      {kType, "--XX\r\nContent-Disposition: attachment; name=a\r\n\r\nb\r\n--XX--"},
      {kType, "--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\nb\r\n--XX--"},
      {kType, "--XX\r\nno colon\r\n\r\nb\r\n--XX--"},
      {kType, "--XX\r\nX: " + std::string(9000, 'x') + "\r\n\r\nb\r\n--XX--"},
  };
  for (const auto& [type, body] : cases)
    EXPECT_EQ(code_of(type, body), "invalid_request") << type << "\n" << body;
}

TEST(Multipart, there_is_a_most_of_parts) {
  std::string body;
  for (int i = 0; i < 64; ++i)
    body += std::string(i == 0 ? "" : "\r\n") + "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nb";
  EXPECT_EQ(parse_form(kType, body + "\r\n--XX--").size(), 64u);
  EXPECT_EQ(code_of(kType, body + "\r\n--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n--XX--"),
            "invalid_request");
}

/// Any cut or changed byte is an error or parts, never a fault.
TEST(Multipart, nothing_is_read_beyond_the_body) {
  const std::string body =
      "--XX\r\nContent-Disposition: form-data; name=\"a\\\"\"; filename=b\r\n\r\nc\r\n--XX--";
  for (size_t length = 0; length < body.size(); ++length) {
    const std::string cut(body, 0, length);
    EXPECT_NE(code_of(kType, cut), "accepted") << length;
  }
  for (size_t at = 0; at < body.size(); ++at) {
    std::string other = body;
    for (const char c : {'\0', '"', ';', '\r', '-', '='}) {
      other[at] = c;
      code_of(kType, other);
    }
  }
}

}  // namespace
}  // namespace penstock::http
