# Evidence: chains of samples, bundles, and checks that repeat their results.
add_library(xplane_time_evidence STATIC
  evidence/bundle.cc
  evidence/grid.cc
  evidence/grid_bundle.cc
  evidence/provenance.cc
  evidence/session.cc
  evidence/verify.cc
  evidence/witness.cc
  evidence/zip.cc)
target_include_directories(xplane_time_evidence
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_evidence
  PUBLIC xplane_time_tune xplane_time_output xplane_time_json
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_trackers ZLIB::ZLIB)
