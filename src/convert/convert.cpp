#include "convert/convert.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "convert/destination.h"
#include "convert/parallel.h"
#include "convert/rows.h"
#include "convert/side_files.h"

namespace penstock::convert {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Error;
using base::Json;

/// Bytes that are made before they are written.
constexpr size_t kChunkBytes = size_t{4} << 20;
/// Bytes after which the journal is brought up to date: what a crash may cost.
constexpr uint64_t kMarkBytes = uint64_t{64} << 20;

void check_apart(const fs::path& source, const fs::path& destination) {
  std::error_code error;
  if (fs::equivalent(source, destination, error) ||
      fs::equivalent(source.parent_path(), destination, error)) {
    throw Error(
        Code::kInvalidRequest,
        "[convert.convert] expected a destination apart from the source; got " + destination.string());
  }
}

/// What the unfinished files depend on.
Json identity_of(const models::ModelFiles& files, const Wish& wish, const Layout& layout) {
  std::error_code error;
  Json sources = Json::array();
  for (const auto& file : files.checkpoint->files()) {
    const auto written = fs::last_write_time(file->path(), error).time_since_epoch().count();
    sources.push_back({file->bytes().size(), written});
  }
  uint64_t heads = base::kFnvOffset;
  for (const Shard& shard : layout.shards) heads = base::fnv1a(shard.head, heads);
  Json options = Json::object();
  if (wish.format) {
    options = {
        {"mode", wish.format->mode}, {"bits", wish.format->bits}, {"group_size", wish.format->group_size}};
  }
  if (wish.dequantize) options["dequantize"] = true;
  if (wish.dtype) options["dtype"] = tensor::name(*wish.dtype);
  return {{"source", fs::absolute(files.path).string()},
          {"options", options},
          {"files", sources},
          {"layout", heads}};
}

class Run {
 public:
  Run(const models::ModelFiles& files, const Options& options, const std::vector<Item>& items,
      const Layout& layout, Destination& destination)
      : files_(files), options_(options), items_(items), layout_(layout), destination_(destination) {}

  void make_all() {
    for (size_t i = 0; i < destination_.done_items(); ++i) done_bytes_ += items_[i].size_bytes();
    uint64_t marked = done_bytes_;
    for (size_t i = destination_.done_items(); i < items_.size(); ++i) {
      if (!make(i)) {
        destination_.mark(i);
        throw Error(Code::kCancelled, "[convert.convert] interrupted; the same command goes on from here");
      }
      drop(items_[i]);
      if (done_bytes_ - marked < kMarkBytes) continue;
      destination_.mark(i + 1);
      marked = done_bytes_;
    }
    destination_.mark(items_.size());
  }

 private:
  bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }

  /// False when it was interrupted.
  bool make(size_t i) {
    const Item& item = items_[i];
    const size_t row_bytes =
        std::max<size_t>(item.rows == 0 ? 1 : item.size_bytes() / static_cast<size_t>(item.rows), 1);
    const auto wide = static_cast<size_t>(item.matrix.cols) * sizeof(float);
    const auto step = static_cast<int64_t>(std::max<size_t>(kChunkBytes / std::max(row_bytes, wide), 1));
    for (int64_t first = 0; first < item.rows; first += step) {
      if (cancelled()) return false;
      make_chunk(i, first, std::min(step, item.rows - first));
      if (options_.on_progress) options_.on_progress(done_bytes_, layout_.tensor_bytes, item.parts[0].name);
    }
    return !cancelled();
  }

  void make_chunk(size_t i, int64_t first, int64_t count) {
    const Item& item = items_[i];
    buffers_.resize(item.parts.size());
    for (size_t p = 0; p < item.parts.size(); ++p)
      buffers_[p].resize(static_cast<size_t>(count) * item.parts[p].row_bytes);
    parallel_rows(count, options_.threads, [&](int64_t from, int64_t rows) {
      std::vector<std::byte*> outs;
      for (size_t p = 0; p < item.parts.size(); ++p)
        outs.push_back(buffers_[p].data() + static_cast<size_t>(from) * item.parts[p].row_bytes);
      make_rows(item, first + from, rows, outs);
    });
    const Place& place = layout_.places[i];
    for (size_t p = 0; p < item.parts.size(); ++p) {
      destination_.write(place.shard,
                         place.offsets[p] + static_cast<uint64_t>(first) * item.parts[p].row_bytes,
                         buffers_[p]);
      done_bytes_ += buffers_[p].size();
    }
  }

  void drop(const Item& item) const {
    for (const tensor::View* view : {&item.matrix.codes, &item.matrix.scales, &item.matrix.biases})
      files_.checkpoint->drop(view->bytes);
  }

  const models::ModelFiles& files_;
  const Options& options_;
  const std::vector<Item>& items_;
  const Layout& layout_;
  Destination& destination_;
  std::vector<std::vector<std::byte>> buffers_;
  uint64_t done_bytes_ = 0;
};

std::vector<Tally> tally(const std::vector<Item>& items) {
  std::vector<Tally> out;
  for (const Item& item : items) {
    const auto found = std::find_if(out.begin(), out.end(), [&](const Tally& t) {
      return t.from == item.from && t.to == item.to && t.effect == item.effect;
    });
    if (found != out.end()) {
      ++found->count;
    } else {
      out.push_back({item.from, item.to, item.effect, 1});
    }
  }
  return out;
}

}  // namespace

std::string_view describe(Effect effect) {
  switch (effect) {
    case Effect::kUnchanged:
      return "unchanged";
    case Effect::kLossless:
      return "without loss";
    case Effect::kRounded:
      return "rounded";
    case Effect::kQuantized:
      return "quantized";
    case Effect::kRequantized:
      return "quantized again";
  }
  return "";
}

Summary convert(const models::ModelFiles& files, const fs::path& destination, const Options& options) {
  check_apart(files.path, destination);
  const Recipe recipe = make_recipe(files, options.wish, options.threads, options.cancel);
  const Layout layout = lay_out(recipe.items, options.shard_bytes);
  // Before any weight is made: what cannot be described is refused at once.
  const Json config = make_config(files, recipe);
  const std::vector<SideFile> side_files = make_side_files(files);
  Destination folder(destination, identity_of(files, options.wish, layout), layout, options.force);
  if (recipe.requantizes && options.on_note)
    options.on_note("the source is quantised already: quantising it again loses accuracy");
  if (options.wish.format && recipe.quantization.is_null() && options.on_note)
    options.on_note("no matrix has columns in whole groups of " +
                    std::to_string(options.wish.format->group_size) + ": nothing was quantised");
  Summary summary;
  summary.resumed = folder.done_items() > 0;
  Run(files, options, recipe.items, layout, folder).make_all();
  folder.finish(side_files, config);
  summary.path = destination;
  summary.tallies = tally(recipe.items);
  summary.quantization = recipe.quantization;
  for (const Shard& shard : layout.shards) {
    summary.files.emplace_back(shard.name, shard.size_bytes);
    summary.size_bytes += shard.size_bytes;
  }
  return summary;
}

}  // namespace penstock::convert
