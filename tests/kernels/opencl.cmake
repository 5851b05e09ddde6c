# The opencl backend, on the first OpenCL device or SLUICE_TEST_DEVICE: PoCL on
# a machine without a GPU.  Skipped where there is none.
#
# PoCL takes a second or two to compile a kernel file for a model's sizes.  So
# the tests share few models, and compiled programs are cached in build/cache,
# for all presets: what a driver compiles is the same.  Tests of one model run
# one after the other; otherwise each would compile.
#
# Tests that take minutes there are in the configuration opencl
# (ctest -C opencl).

# sluice_wrap(TARGET FUNCTION...): the linker puts the test's functions in
# front.
function(sluice_wrap target)
  foreach(f ${ARGN})
    target_link_options(${target} PRIVATE -Wl,--wrap=${f})
  endforeach()
endfunction()

# Needs no device.
sluice_test(opencl_matmul_test SOURCES opencl_matmul_test.c
  LINK sluice_kernels)
sluice_wrap(opencl_matmul_test opencl_choose opencl_scratch opencl_launch)

sluice_test(opencl_noise_test SOURCES opencl_noise_test.c
  LINK sluice_reference)
sluice_test(opencl_program_test SOURCES opencl_program_test.c
  LINK sluice_kernels)
sluice_test(opencl_dequantise_test SOURCES opencl_dequantise_test.c
  LINK sluice_reference)
sluice_test(opencl_formats_test SOURCES opencl_formats_test.c
  LINK sluice_reference)
sluice_test(opencl_sample_test SOURCES opencl_sample_test.c
  LINK sluice_reference)

sluice_test(opencl_operators_test SOURCES opencl_operators_test.c bench.c
  LINK sluice_reference ARGS bf16)
sluice_wrap(opencl_operators_test opencl_arena_add opencl_scratch)
foreach(kind odd f16 one affine8 affine4 turbo3.5 experts sinks norms
    formats)
  add_test(NAME opencl_operators_${kind} COMMAND opencl_operators_test ${kind}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  list(APPEND kinds opencl_operators_${kind})
endforeach()

# Use the same model as opencl_operators_test.
sluice_test(opencl_saves_test SOURCES opencl_saves_test.c
  LINK sluice_reference)
sluice_test(opencl_drafts_test SOURCES opencl_drafts_test.c
  LINK sluice_reference)
sluice_test(opencl_pages_test SOURCES opencl_pages_test.c
  LINK sluice_reference)
set(late clEnqueueReadBuffer clEnqueueWriteBuffer clEnqueueCopyBuffer
  clEnqueueNDRangeKernel clEnqueueBarrierWithWaitList clWaitForEvents clFinish)
sluice_test(opencl_copies_test SOURCES opencl_copies_test.c late_driver.c
  LINK sluice_reference)
sluice_wrap(opencl_copies_test ${late})
sluice_test(opencl_kv_test SOURCES opencl_kv_test.c LINK sluice_reference
  ARGS affine8)
foreach(kind affine4 turbo3.5)
  add_test(NAME opencl_kv_${kind} COMMAND opencl_kv_test ${kind}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  list(APPEND kinds opencl_kv_${kind})
endforeach()
foreach(kind affine4-f16 affine8-odd turbo2.5-small)
  add_test(NAME opencl_kv_${kind} COMMAND opencl_kv_test ${kind}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} CONFIGURATIONS opencl)
  list(APPEND kinds opencl_kv_${kind})
endforeach()
sluice_test(opencl_launch_test SOURCES opencl_launch_test.c
  LINK sluice_reference)
sluice_wrap(opencl_launch_test clEnqueueNDRangeKernel)
sluice_test(opencl_experts_test SOURCES opencl_experts_test.c
  LINK sluice_reference)
sluice_test(opencl_windows_test SOURCES opencl_windows_test.c late_driver.c
  LINK sluice_reference)
sluice_wrap(opencl_windows_test ${late})
sluice_test(opencl_host_test SOURCES opencl_host_test.c
  LINK sluice_reference)
sluice_wrap(opencl_host_test clCreateBuffer clEnqueueNDRangeKernel
  clEnqueueReadBuffer clEnqueueWriteBuffer clFinish clWaitForEvents
  clBuildProgram)

# Compiles for models of its own.
add_test(NAME drafts_opencl COMMAND drafts_test
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} CONFIGURATIONS opencl)

# Uses the embedded model, whose programs golden_opencl has built.
add_test(NAME invariance_opencl COMMAND invariance_test
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
add_test(NAME invariance_opencl_all COMMAND invariance_test
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} CONFIGURATIONS opencl)

sluice_opencl_test(opencl_program_test opencl_noise_test
  opencl_dequantise_test opencl_formats_test opencl_sample_test
  opencl_operators_test ${kinds} opencl_experts_test opencl_windows_test opencl_host_test opencl_launch_test
  opencl_drafts_test opencl_copies_test opencl_pages_test opencl_saves_test opencl_kv_test invariance_opencl invariance_opencl_all
  drafts_opencl)
set_tests_properties(opencl_host_test opencl_launch_test opencl_noise_test
  opencl_drafts_test opencl_copies_test opencl_pages_test opencl_saves_test PROPERTIES
  DEPENDS opencl_operators_test)
set_tests_properties(opencl_experts_test PROPERTIES
  DEPENDS opencl_operators_experts)
set_tests_properties(opencl_windows_test PROPERTIES
  DEPENDS opencl_operators_sinks)
set_tests_properties(invariance_opencl PROPERTIES
  DEPENDS golden_opencl)
set_property(TEST invariance_opencl APPEND PROPERTY ENVIRONMENT
  SLUICE_TEST_DEVICE=0 SLUICE_TEST_SHORT=1)
set_property(TEST invariance_opencl_all APPEND PROPERTY ENVIRONMENT
  SLUICE_TEST_DEVICE=0)
set_property(TEST drafts_opencl APPEND PROPERTY ENVIRONMENT
  SLUICE_TEST_DEVICE=0)
