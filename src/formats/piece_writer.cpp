#include "formats/piece_writer.h"

namespace penstock::formats {
namespace {

template <class Kind>
void add(std::vector<Piece>& out, std::string_view bytes, size_t begin) {
  if (bytes.empty()) return;
  Kind* last = out.empty() ? nullptr : std::get_if<Kind>(&out.back());
  if (last != nullptr && last->begin + last->text.size() == begin) {
    last->text += bytes;
  } else {
    out.emplace_back(Kind{std::string(bytes), begin});
  }
}

}  // namespace

void PieceWriter::text(std::string_view bytes, size_t begin) {
  add<Text>(*out_, bytes, begin);
}

void PieceWriter::reasoning(std::string_view bytes, size_t begin) {
  add<Reasoning>(*out_, bytes, begin);
}

void PieceWriter::begin_call(const std::string& name, const std::string& id) {
  ++calls_;
  out_->emplace_back(CallBegin{name, id});
}

void PieceWriter::arguments(std::string_view json) {
  if (json.empty()) return;
  CallArguments* last = out_->empty() ? nullptr : std::get_if<CallArguments>(&out_->back());
  if (last != nullptr) {
    last->json += json;
  } else {
    out_->emplace_back(CallArguments{std::string(json)});
  }
}

void PieceWriter::end_call() {
  out_->emplace_back(std::in_place_type<CallEnd>);
}

}  // namespace penstock::formats
