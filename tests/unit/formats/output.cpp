#include "output.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace penstock::formats::testing {
namespace {

using base::Json;

template <class Kind>
bool joined_text(std::vector<Piece>& pieces, const Kind& piece) {
  Kind* last = pieces.empty() ? nullptr : std::get_if<Kind>(&pieces.back());
  if (last == nullptr || last->begin + last->text.size() != piece.begin) return false;
  last->text += piece.text;
  return true;
}

/// Adds the piece to the last one if that is of its kind.
bool joined(std::vector<Piece>& pieces, const Piece& piece) {
  if (const auto* text = std::get_if<Text>(&piece)) return joined_text(pieces, *text);
  if (const auto* reasoning = std::get_if<Reasoning>(&piece)) return joined_text(pieces, *reasoning);
  const auto* arguments = std::get_if<CallArguments>(&piece);
  CallArguments* last = pieces.empty() ? nullptr : std::get_if<CallArguments>(&pieces.back());
  if (arguments == nullptr || last == nullptr) return false;
  last->json += arguments->json;
  return true;
}

/// Everything that a piece says.
std::string said(const std::vector<Piece>& pieces) {
  std::string out;
  for (const Piece& piece : pieces) {
    if (const auto* text = std::get_if<Text>(&piece)) {
      out += "text@" + std::to_string(text->begin) + ":" + text->text + "\n";
    } else if (const auto* reasoning = std::get_if<Reasoning>(&piece)) {
      out += "reasoning@" + std::to_string(reasoning->begin) + ":" + reasoning->text + "\n";
    } else if (const auto* call = std::get_if<CallBegin>(&piece)) {
      out += "call:" + call->name + ":" + call->id + "\n";
    } else if (const auto* arguments = std::get_if<CallArguments>(&piece)) {
      out += "arguments:" + arguments->json + "\n";
    } else {
      out += "end\n";
    }
  }
  return out;
}

void add_text(Json& out, const char* kind, const std::string& text) {
  if (!out.empty() && out.back().contains(kind)) {
    out.back()[kind] = out.back()[kind].get<std::string>() + text;
  } else {
    out.push_back({{kind, text}});
  }
}

Json described(const std::vector<Piece>& pieces) {
  Json out = Json::array();
  for (const Piece& piece : pieces) {
    if (const auto* text = std::get_if<Text>(&piece)) {
      add_text(out, "text", text->text);
    } else if (const auto* reasoning = std::get_if<Reasoning>(&piece)) {
      add_text(out, "reasoning", reasoning->text);
    } else if (const auto* call = std::get_if<CallBegin>(&piece)) {
      out.push_back({{"call", call->name}});
      if (!call->id.empty()) out.back()["id"] = call->id;
      out.back()["open"] = "";
    } else if (const auto* arguments = std::get_if<CallArguments>(&piece)) {
      out.back().at("open") = arguments->json;
    } else {
      const std::string json = out.back().at("open").get<std::string>();
      out.back().erase("open");
      out.back()["arguments"] = Json::parse(json, nullptr, false);
      EXPECT_TRUE(out.back()["arguments"].is_object()) << json;
    }
  }
  return out;
}

}  // namespace

std::vector<std::vector<size_t>> cuts_of(std::string_view text) {
  std::vector<std::vector<size_t>> out(2);
  out[0] = {text.size()};
  for (size_t end = 1; end <= text.size(); ++end) out[1].push_back(end);
  std::mt19937 random(7);
  for (int i = 0; i < 4; ++i) {
    std::vector<size_t> ends;
    for (size_t end = 0; end < text.size();) {
      end = std::min(text.size(), end + 1 + random() % 12);
      ends.push_back(end);
    }
    out.push_back(std::move(ends));
  }
  return out;
}

std::vector<Piece> parse(OutputParser& parser, std::string_view output, const std::vector<size_t>& ends) {
  std::vector<Piece> out;
  const auto take = [&](const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      if (!joined(out, piece)) out.push_back(piece);
    }
  };
  size_t begin = 0;
  for (const size_t end : ends) {
    std::vector<Piece> pieces;
    parser.push(output.substr(begin, end - begin), pieces);
    take(pieces);
    begin = end;
  }
  std::vector<Piece> pieces;
  parser.finish(pieces);
  take(pieces);
  for (const Piece& piece : out) {
    if (const auto* text = std::get_if<Text>(&piece)) {
      EXPECT_EQ(text->text, output.substr(text->begin, text->text.size()));
    }
    if (const auto* text = std::get_if<Reasoning>(&piece)) {
      EXPECT_EQ(text->text, output.substr(text->begin, text->text.size()));
    }
  }
  return out;
}

base::Json outcome(const OutputFormat& format, const ParserOptions& options, std::string_view output) {
  std::vector<Piece> first;
  for (const std::vector<size_t>& ends : cuts_of(output)) {
    const std::unique_ptr<OutputParser> parser = make_parser(format, options);
    const std::vector<Piece> pieces = parse(*parser, output, ends);
    if (first.empty()) first = pieces;
    EXPECT_EQ(said(pieces), said(first)) << "fed in " << ends.size() << " pieces";
  }
  return described(first);
}

}  // namespace penstock::formats::testing
