#include "formats/piece_writer.h"

#include <utility>

namespace penstock::formats {

void PieceWriter::begin_call(std::string name, std::string id) {
  ++calls_;
  out_->push_back(CallBegin{std::move(name), std::move(id)});
}

void PieceWriter::arguments(std::string_view json) {
  if (json.empty()) return;
  CallArguments* last = out_->empty() ? nullptr : std::get_if<CallArguments>(&out_->back());
  if (last != nullptr) {
    last->json += json;
  } else {
    out_->push_back(CallArguments{std::string(json)});
  }
}

}  // namespace penstock::formats
