#include "store/transfer.h"

#include <limits>

#include "base/error.h"
#include "unit/store/scratch_folder.h"

namespace penstock::store {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

class RequireDisk : public ScratchFolder {};

TEST_F(RequireDisk, ASmallFileFits) {
  EXPECT_NO_THROW(require_disk(root_ / "new", 1, "it"));
}

TEST_F(RequireDisk, NoAnnouncedSizeIsTooLargeToRefuse) {
  for (const uint64_t needed_bytes : {uint64_t{1} << 62, kMost - (uint64_t{64} << 20), kMost - 1, kMost}) {
    try {
      require_disk(root_, needed_bytes, "it");
      ADD_FAILURE() << needed_bytes;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::kIo) << needed_bytes;
    }
  }
}

TEST(AddBytes, StaysAtTheLargestValue) {
  EXPECT_EQ(add_bytes(2, 3), 5u);
  EXPECT_EQ(add_bytes(kMost - 1, 1), kMost);
  EXPECT_EQ(add_bytes(kMost, 1), kMost);
  EXPECT_EQ(add_bytes(uint64_t{1} << 63, uint64_t{1} << 63), kMost);
}

}  // namespace
}  // namespace penstock::store
