#include "near_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xplane_time::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kKnown = {"hlo_op", "hlo_module", "run_id", "program_id", "tf_op"};

TEST(NearNames, TheNearestComeFirst) {
  EXPECT_THAT(NearNames("hlo_opp", kKnown), ElementsAre("hlo_op"));
  EXPECT_THAT(NearNames("rnu_id", kKnown), ElementsAre("run_id"));
  EXPECT_THAT(NearNames("HLO_Module", kKnown), ElementsAre("hlo_module"));
  EXPECT_THAT(NearNames("tlo_op", kKnown), ElementsAre("hlo_op", "tf_op"));
  EXPECT_THAT(NearNames("tlo_op", kKnown, 1), ElementsAre("hlo_op"));
}

TEST(NearNames, AKnownNameIsNotMisspelt) {
  EXPECT_THAT(NearNames("hlo_op", kKnown), IsEmpty());
  EXPECT_EQ(DidYouMean("tf_op", kKnown), "");
  EXPECT_EQ(DidYouMean("tf_opp", kKnown), "; did you mean tf_op?");
}

TEST(NearNames, WhatIsFarIsNotNamed) {
  EXPECT_THAT(NearNames("occupancy", kKnown), IsEmpty());
  EXPECT_THAT(NearNames("", kKnown), IsEmpty());
  EXPECT_THAT(NearNames("hlo_op", {}), IsEmpty());
  EXPECT_THAT(NearNames(std::string(1 << 20, 'x'), kKnown), IsEmpty());
}

}  // namespace
}  // namespace xplane_time::testing
