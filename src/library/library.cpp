#include "library/library.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/unix_time.h"
#include "library/names.h"

namespace penstock::library {
namespace {

using base::Code;
using base::Error;

constexpr int kLongThreads = 4;
constexpr size_t kMostWaiting = 256;

/// Of the weights of a model of uploads, in the order of their names, as read_facts has it.
std::string digest_of(Entry entry) {
  std::sort(entry.files.begin(), entry.files.end(),
            [](const EntryFile& a, const EntryFile& b) { return a.name < b.name; });
  std::vector<std::string> digests;
  for (const EntryFile& file : entry.files) {
    if (file.name.ends_with(".safetensors") || file.name.ends_with(".gguf")) digests.push_back(file.sha256);
  }
  return joined_digest(digests);
}

[[noreturn]] void refuse(const std::string& message, const char* field) {
  throw Error(Code::kInvalidRequest, "[library.change] " + message, field);
}

}  // namespace

Library::Library(std::shared_ptr<pool::ModelPool> models, LibraryOptions options)
    : models_(std::move(models)),
      options_(std::move(options)),
      short_tasks_(1, kMostWaiting),
      long_tasks_(kLongThreads, kMostWaiting),
      blobs_(options_.folder / "blobs", short_tasks_),
      located_(options_.located) {
  if (!options_.may_change) return;
  blobs_.remove_leftovers();
  std::vector<Entry> entries = read_entries(entries_folder());
  std::stable_partition(entries.begin(), entries.end(),
                        [](const Entry& entry) { return entry.base.empty(); });
  for (const Entry& entry : entries) {
    try {
      offer(entry);
      keep(entry);
    } catch (const Error& why) {
      base::log::warn("the model {} is left out: {}", entry.name, why.text());
    }
  }
}

Library::~Library() {
  stop();
}

void Library::stop() {
  long_tasks_.stop();
  short_tasks_.stop();
}

void Library::require_change() const {
  if (options_.may_change) return;
  throw Error(Code::kForbidden,
              "[library.change] expected a server whose models requests may change; this one is not: see the "
              "setting model_changes");
}

void Library::post_long(serve::Workers::Task task) {
  if (long_tasks_.try_post(std::move(task))) return;
  throw Error(Code::kOverloaded, "[library.post] expected room for one more task; got too many that wait");
}

void Library::post(serve::Workers::Task task) {
  if (short_tasks_.try_post(std::move(task))) return;
  throw Error(Code::kOverloaded, "[library.post] expected room for one more task; got too many that wait");
}

Preset Library::preset(std::string_view name) const {
  const auto entry = entry_of(name);
  return entry ? entry->preset : Preset{};
}

std::optional<Entry> Library::entry_of(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<store::Located> Library::located_of(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = located_.find(id);
  return found == located_.end() ? std::nullopt : std::optional(found->second);
}

bool Library::is_served(const std::string& name) const {
  try {
    models_->id_of(name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<Listing> Library::list() {
  std::vector<Listing> listings;
  for (const pool::ModelEntry& card : models_->list()) {
    listings.push_back(listing_of(card.id, card));
    std::vector<std::string> others;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [name, entry] : entries_) {
        if (entry.base == card.id) others.push_back(name);
      }
    }
    for (const std::string& name : others) listings.push_back(listing_of(name, card));
  }
  return listings;
}

Listing Library::find(const std::string& name) {
  const std::string id = models_->id_of(name);
  for (const pool::ModelEntry& card : models_->list()) {
    if (card.id == id) return listing_of(entry_of(name) ? name : id, card);
  }
  throw Error(Code::kNotFound, "[library.find] expected the model " + name + "; it was removed", "model");
}

Listing Library::listing_of(const std::string& name, const pool::ModelEntry& card) {
  Listing listing;
  listing.name = name;
  listing.card = card;
  listing.facts = facts_of(card);
  listing.modified_ms = listing.facts.modified_ms == 0 ? card.created * 1000 : listing.facts.modified_ms;
  if (const auto entry = entry_of(name)) {
    listing.preset = entry->preset;
    listing.parent = entry->base;
    listing.modified_ms = entry->created_ms;
  }
  return listing;
}

/// What a loaded model said counts more than its files: settings may have named its formats.
Facts Library::facts_of(const pool::ModelEntry& card) {
  Facts facts;
  const auto located = located_of(card.id);
  bool is_known = !located;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = facts_.find(card.id); found != facts_.end()) {
      facts = found->second;
      is_known = true;
    }
  }
  if (!is_known) {
    facts = read_facts(located->path);
    if (const auto entry = entry_of(card.id); entry && !entry->files.empty())
      facts.sha256 = digest_of(*entry);
    const std::lock_guard lock(mutex_);
    facts_[card.id] = facts;
  }
  if (card.context_length == 0) return facts;
  facts.has_reasoning = card.has_reasoning;
  facts.calls_tools = card.calls_tools;
  if (located) return facts;
  facts.family = card.family;
  facts.quantisation = card.format;
  facts.context_length = card.context_length;
  facts.chat_template = card.template_source;
  facts.info = {{"general.architecture", card.family},
                {card.family + ".context_length", card.context_length}};
  return facts;
}

void Library::add_source(const store::Located& located, const std::string& name) {
  if (!options_.make_source) refuse("expected a server that loads files; this one plays a script", "model");
  models_->add(options_.make_source(located, name));
  const std::lock_guard lock(mutex_);
  located_[name] = located;
  facts_.erase(name);
}

store::Located Library::locate(const Entry& entry) const {
  if (!entry.files.empty()) return locate_upload(entry);
  auto located = options_.registry == nullptr ? std::nullopt : options_.registry->find_stored(entry.stored);
  if (!located) {
    throw Error(Code::kNotFound,
                "[library.find] expected " + entry.stored + " to be on this machine; it is not", "model");
  }
  return *located;
}

void Library::offer(const Entry& entry) {
  if (entry.base.empty()) {
    if (!is_served(entry.name)) add_source(locate(entry), entry.name);
    return;
  }
  if (!is_served(entry.base)) {
    if (entry.stored.empty())
      throw Error(Code::kNotFound, "[library.offer] expected the model " + entry.base + "; it is not served");
    add_source(locate(entry), entry.base);
  }
  models_->add_name(models_->id_of(entry.base), entry.name);
}

void Library::keep(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  entries_[entry.name] = entry;
}

void Library::require_usable_name(const std::string& name) const {
  if (!is_model_name(name) || name == "default") {
    refuse("expected a name as org/name:tag of letters, digits, '.', '_' and '-'; got another text", "model");
  }
  const size_t tag = tag_of(name);
  if (tag != std::string::npos && options_.is_tag_taken && options_.is_tag_taken(name.substr(tag))) {
    refuse("expected a tag that is no profile of this server; got " + name, "model");
  }
  if (is_served(name) && !entry_of(name)) {
    refuse("expected a name that is free; got " + name + ", which the server was started with", "model");
  }
}

/// Writes it down first: what the client is told must be there after a crash.
void Library::replace(const Entry& entry) {
  if (entry_of(entry.name)) remove_locked(entry.name);
  write_entry(entries_folder(), entry);
  try {
    offer(entry);
  } catch (...) {
    remove_entry(entries_folder(), entry.name);
    throw;
  }
  keep(entry);
}

void Library::copy(const std::string& source, const std::string& name) {
  require_change();
  const std::lock_guard changes(changes_);
  const std::string id = models_->id_of(source);
  if (name == source || name == id) return;
  require_usable_name(name);
  const auto located = located_of(id);
  const auto own = entry_of(source);
  Entry entry{name, id, located && !located->repo.empty() ? located->name : "", {}, {}, base::unix_ms()};
  if (own) entry.preset = own->preset;
  replace(entry);
}

void Library::create(const CreateOrder& order, const OnStatus& on_status) {
  require_change();
  const std::lock_guard changes(changes_);
  require_usable_name(order.name);
  Entry entry{order.name, "", "", order.files, order.preset, base::unix_ms()};
  if (order.files.empty()) {
    entry.base = models_->id_of(order.from);
    if (order.name == entry.base || order.name == order.from)
      refuse("expected a name other than that of the model it is made from; got " + order.name, "model");
    const auto located = located_of(entry.base);
    if (located && !located->repo.empty()) entry.stored = located->name;
    const Preset inherited = preset(order.from);
    if (entry.preset.system.empty()) entry.preset.system = inherited.system;
    if (entry.preset.licences.empty()) entry.preset.licences = inherited.licences;
    if (inherited.parameters.is_object()) {
      base::Json parameters = inherited.parameters;
      if (entry.preset.parameters.is_object()) parameters.update(entry.preset.parameters);
      entry.preset.parameters = std::move(parameters);
    }
  } else {
    for (const EntryFile& file : entry.files) on_status("using uploaded layer sha256:" + file.sha256);
    check_files(entry);
    link_files(entry);
  }
  on_status("writing manifest");
  try {
    replace(entry);
  } catch (...) {
    if (!entry.files.empty()) remove_weights(entry);
    throw;
  }
}

void Library::pull(const std::string& name, const store::Watch& watch) {
  require_change();
  if (options_.registry == nullptr) refuse("expected a server with a store of models; got none", "model");
  if (!is_model_name(name)) {
    refuse("expected an alias or a repository as org/name or org/name:quantisation; got another text",
           "model");
  }
  store::Registry registry = *options_.registry;
  const store::Located located = registry.pull_stored(name, watch);
  const std::lock_guard changes(changes_);
  if (is_served(name)) return;
  replace({name, "", located.name, {}, {}, base::unix_ms()});
}

void Library::remove(const std::string& name) {
  require_change();
  const std::lock_guard changes(changes_);
  remove_locked(name);
}

void Library::remove_locked(const std::string& name) {
  const auto entry = entry_of(name);
  const std::string id = models_->id_of(name);
  if (entry && !entry->base.empty()) {
    models_->remove_name(id, name);
  } else {
    remove_files(id, entry);
  }
  remove_entry(entries_folder(), name);
  const std::lock_guard lock(mutex_);
  entries_.erase(name);
}

void Library::remove_files(const std::string& id, const std::optional<Entry>& entry) {
  const auto located = located_of(id);
  const bool is_upload = entry && !entry->files.empty();
  if (!is_upload && (!located || located->repo.empty())) {
    refuse("expected a model of the store or an upload; " + id + " is not the server's to remove", "model");
  }
  std::string others;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, other] : entries_) {
      if (other.base == id) others += (others.empty() ? "" : ", ") + name;
    }
  }
  if (!others.empty()) refuse("expected a model without other names; remove " + others + " first", "model");
  models_->remove(id);
  if (is_upload) {
    remove_weights(*entry);
    for (const EntryFile& file : entry->files) blobs_.remove_if_unused(file.sha256);
  } else {
    store::Registry registry = *options_.registry;
    registry.remove(located->name);
  }
  const std::lock_guard lock(mutex_);
  located_.erase(id);
  facts_.erase(id);
}

}  // namespace penstock::library
