# Results as SQLite databases.
add_library(xplane_time_sqlite STATIC sqlite/result_database.cc)
target_link_libraries(xplane_time_sqlite
  PUBLIC xplane_time_output
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> SQLite::SQLite3)
set_target_properties(xplane_time_sqlite PROPERTIES POSITION_INDEPENDENT_CODE ON)
