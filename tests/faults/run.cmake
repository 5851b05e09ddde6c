# tests/faults/run: real daemons, and a load that checks every stream.
add_executable(fault_load load.c catalogue.c reference.c tally.c)
target_link_libraries(fault_load PRIVATE
  sluice_flags sluice_warnings sluice_client sluice_proto)
set_target_properties(fault_load PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

sluice_test(fault_reference_test SOURCES reference_test.c reference.c
  LINK sluice_client)

# Libraries to preload: a jumping wall clock, a storm of signals, and a failing
# OpenCL driver.
foreach(shim clock_shim device_shim storm_shim)
  add_library(${shim} SHARED ${shim}.c)
  set_target_properties(${shim} PROPERTIES PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endforeach()
target_link_libraries(storm_shim PRIVATE Threads::Threads)

# A worker on that driver, with the kernels that golden_opencl has built.
sluice_fault_test(device_faults)
sluice_opencl_test(device_faults)
set_tests_properties(device_faults PROPERTIES DEPENDS golden_opencl LABELS system)
set_property(TEST device_faults APPEND PROPERTY ENVIRONMENT
  SLUICE_BIN=${PROJECT_BINARY_DIR}/bin)

# Every fault a few times; a build with sanitizers runs some of them.
set(faults_quick --quick --build ${PROJECT_BINARY_DIR})
if(SLUICE_SANITIZE)
  list(APPEND faults_quick --no-rss --fault kill --fault rolling
    --fault cancels)
endif()
add_test(NAME faults_quick
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run ${faults_quick})
set_tests_properties(faults_quick PROPERTIES LABELS system
  PROCESSORS 2 COST 90)

# Network faults over several hosts with keys.  Exit code 77: network namespaces
# cannot be made here.
if(NOT SLUICE_SANITIZE)
  add_test(NAME faults_namespaces COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run
    --quick --namespaces --build ${PROJECT_BINARY_DIR})
  set_tests_properties(faults_namespaces PROPERTIES LABELS system
    PROCESSORS 2 COST 60 SKIP_RETURN_CODE 77)
  sluice_long_test(faults_namespaces)
endif()
