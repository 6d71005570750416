#include "http/router.h"

#include <algorithm>

#include "base/error.h"
#include "http/uri.h"

namespace penstock::http {
namespace {

/// Pieces between slashes; the leading slash is dropped: "/a/b" is {"a", "b"}, "/" is {""}.
std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> pieces;
  path.remove_prefix(1);
  for (;;) {
    const size_t end = path.find('/');
    pieces.push_back(path.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

std::vector<Router::Segment> Router::parse(std::string_view pattern) {
  const auto bad = [&](std::string_view why) {
    return base::Error(base::Code::kInternal, "[http.route] expected a route pattern " + std::string(why) +
                                                  "; got " + std::string(pattern));
  };
  if (!pattern.starts_with('/')) throw bad("that starts with a slash");
  std::vector<Segment> segments;
  bool rest = false;
  for (std::string_view piece : split(pattern)) {
    if (!piece.starts_with('{')) {
      segments.push_back({Segment::kLiteral, std::string(piece)});
      continue;
    }
    if (!piece.ends_with('}')) throw bad("whose parameters are whole segments");
    piece = piece.substr(1, piece.size() - 2);
    const bool is_rest = piece.ends_with("...");
    if (is_rest && rest) throw bad("with one {name...}");
    rest = rest || is_rest;
    const std::string_view name = is_rest ? piece.substr(0, piece.size() - 3) : piece;
    segments.push_back({is_rest ? Segment::kRest : Segment::kOne, std::string(name)});
  }
  return segments;
}

void Router::add(std::string_view method, std::string_view pattern, Handler handler) {
  add_target(method, pattern, std::move(handler));
}

void Router::add_upload(std::string_view method, std::string_view pattern, Upload upload) {
  add_target(method, pattern, std::move(upload));
}

void Router::add_target(std::string_view method, std::string_view pattern, Target target) {
  Route route{parse(pattern), {}};
  const auto key = [](const Route& r) {
    std::vector<std::pair<int, std::string>> parts;
    for (const Segment& s : r.segments) parts.emplace_back(s.kind, s.kind == Segment::kLiteral ? s.text : "");
    // A pattern that ends early is less specific than one that goes on.
    parts.emplace_back(Segment::kRest + 1, "");
    return parts;
  };
  auto at = std::lower_bound(routes_.begin(), routes_.end(), key(route),
                             [&](const Route& r, const auto& wanted) { return key(r) < wanted; });
  if (at == routes_.end() || key(*at) != key(route)) at = routes_.insert(at, std::move(route));
  if (!at->methods.emplace(std::string(method), std::move(target)).second) {
    throw base::Error(base::Code::kInternal, "[http.route] expected a new route; got " + std::string(method) +
                                                 " " + std::string(pattern) + " twice");
  }
}

bool Router::matches(const Route& route, const Pieces& pieces, std::map<std::string, std::string>& params) {
  const size_t wanted = route.segments.size(), got = pieces.size();
  const bool has_rest = std::any_of(route.segments.begin(), route.segments.end(),
                                    [](const Segment& s) { return s.kind == Segment::kRest; });
  if (has_rest ? got < wanted : got != wanted) return false;
  size_t at = 0;
  for (const Segment& segment : route.segments) {
    const size_t count = segment.kind == Segment::kRest ? got - wanted + 1 : 1;
    std::string text;
    for (size_t i = at; i < at + count; ++i) {
      const auto piece = percent_decode(pieces[i]);
      if (!piece) return false;
      if (i > at) text += '/';
      text += *piece;
    }
    at += count;
    if (segment.kind == Segment::kLiteral ? text != segment.text : text.empty()) return false;
    if (segment.kind != Segment::kLiteral) params[segment.text] = std::move(text);
  }
  return true;
}

std::string Router::allow_of(const Route& route) {
  std::string allow;
  for (const auto& [method, target] : route.methods) {
    allow += method + ", ";
    if (method == "GET" && !route.methods.contains("HEAD")) allow += "HEAD, ";
  }
  if (!route.methods.contains("OPTIONS")) allow += "OPTIONS, ";
  allow.resize(allow.size() - 2);
  return allow;
}

std::string Router::paths() const {
  std::string list;
  for (const Route& route : routes_) {
    if (!list.empty()) list += ", ";
    for (const Segment& segment : route.segments) {
      const bool literal = segment.kind == Segment::kLiteral;
      list += "/" + (literal ? segment.text : "{" + segment.text + "}");
    }
  }
  return list;
}

std::optional<Router::Match> Router::match(std::string_view method, std::string_view raw_path) const {
  if (!raw_path.starts_with('/')) return std::nullopt;
  const Pieces pieces = split(raw_path);
  std::optional<Match> other;  // right path, wrong method
  for (const Route& route : routes_) {
    Match found;
    if (!matches(route, pieces, found.params)) continue;
    auto target = route.methods.find(std::string(method));
    if (target == route.methods.end() && method == "HEAD") target = route.methods.find("GET");
    if (target != route.methods.end()) {
      found.handler = std::get_if<Handler>(&target->second);
      found.upload = std::get_if<Upload>(&target->second);
      return found;
    }
    if (!other) {
      found.allow = allow_of(route);
      other = std::move(found);
    }
  }
  return other;
}

}  // namespace penstock::http
