#include "store/archive.h"

#include <map>

#include <archive.h>
#include <archive_entry.h>

#include "base/error.h"
#include "unit/store/scratch_folder.h"

namespace penstock::store {
namespace {

class ReadMember : public ScratchFolder {
 protected:
  std::filesystem::path make(bool zip, const std::map<std::string, std::string>& members) {
    const auto path = root_ / (zip ? "a.whl" : "a.tar.gz");
    struct archive* out = archive_write_new();
    zip ? archive_write_set_format_zip(out) : archive_write_set_format_pax_restricted(out);
    if (!zip) archive_write_add_filter_gzip(out);
    archive_write_open_filename(out, path.c_str());
    for (const auto& [name, text] : members) {
      struct archive_entry* entry = archive_entry_new();
      archive_entry_set_pathname(entry, name.c_str());
      archive_entry_set_size(entry, static_cast<int64_t>(text.size()));
      archive_entry_set_filetype(entry, AE_IFREG);
      archive_entry_set_perm(entry, 0644);
      archive_write_header(out, entry);
      archive_write_data(out, text.data(), text.size());
      archive_entry_free(entry);
    }
    archive_write_free(out);
    return path;
  }

  static std::string read(const std::filesystem::path& path, const std::string& member) {
    std::string text;
    read_member(path, member, [&](std::string_view bytes) { text += bytes; });
    return text;
  }
};

TEST_F(ReadMember, OfZipAndOfSourceArchives) {
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(read(make(true, {{"p/a.bin", "wrong"}, {"p/data/part.bin", large}}), "p/data/part.bin"), large);
  EXPECT_EQ(read(make(false, {{"p-1.0/p/part.bin", large}}), "p/part.bin"), large);
}

TEST_F(ReadMember, MissingAndDamaged) {
  const auto path = make(true, {{"p/a.bin", std::string(100000, 'x')}});
  EXPECT_THROW(read(path, "p/b.bin"), base::Error);
  std::filesystem::resize_file(path, 100);
  EXPECT_THROW(read(path, "p/a.bin"), base::Error);
  EXPECT_THROW(read(write("t", "not an archive"), "p/a.bin"), base::Error);
}

}  // namespace
}  // namespace penstock::store
