# tests/faults/run: real daemons, and streams that know what they must get.
add_executable(fault_load load.c catalogue.c reference.c tally.c)
target_link_libraries(fault_load PRIVATE
  sluice_flags sluice_warnings sluice_client sluice_proto)
set_target_properties(fault_load PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

# A wall clock that jumps, to be preloaded.
add_library(clock_shim SHARED clock_shim.c)
set_target_properties(clock_shim PROPERTIES PREFIX ""
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
