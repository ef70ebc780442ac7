#include "growing_list.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace xplane_time {
namespace {

TEST(GrowingListTest, HoldsWhatWasAddedWhereItWas) {
  GrowingList<std::string> list;
  EXPECT_TRUE(list.empty());
  std::vector<const std::string*> places;
  for (size_t i = 0; i < 1000; ++i) {
    places.push_back(&list.push_back(std::to_string(i)));
    ASSERT_EQ(list.size(), i + 1);
  }
  for (size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(&list[i], places[i]);
    ASSERT_EQ(list[i], std::to_string(i));
  }
}

// With ThreadSanitizer this shows more.
TEST(GrowingListTest, IsReadWhileItGrows) {
  constexpr size_t kCount = 20000;
  GrowingList<std::string> list;
  std::thread adds([&] {
    for (size_t i = 0; i < kCount; ++i) list.push_back(std::to_string(i));
  });
  for (size_t read = 0; read < kCount;) {
    for (const size_t size = list.size(); read < size; ++read) {
      EXPECT_EQ(list[read], std::to_string(read));
    }
  }
  adds.join();
}

}  // namespace
}  // namespace xplane_time
