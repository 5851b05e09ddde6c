# What every target of the project shares, and the three ways to make one:
#   sluice_library(NAME SOURCES a.c ... LINK libs ...)
#   sluice_program(NAME SOURCES main.c ... LINK libs ...)
#   sluice_test(NAME SOURCES x_test.c ... LINK libs ... ARGS ...)
# A module with its test is two lines.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(SLUICE_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them")
option(SLUICE_TESTS "build the tests" ON)
set(SLUICE_TEST_CACHE ${PROJECT_BINARY_DIR}/cache CACHE PATH
  "what OpenCL drivers compile for tests; several builds may share it")
option(SLUICE_PACKAGES "build Debian packages (cmake/packages)" OFF)
option(SLUICE_COVERAGE "count the lines and branches of the cores (gcc)" OFF)

# cmake/cached compiles through ccache.  Packages are compiled without it, as
# their objects must not depend on another folder; coverage writes files beside
# its objects.
option(SLUICE_CCACHE "compile through ccache where it is installed" ON)
if(SLUICE_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER
    AND NOT SLUICE_PACKAGES AND NOT SLUICE_COVERAGE)
  set(CMAKE_C_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/cached)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl)
pkg_check_modules(OPENCL REQUIRED IMPORTED_TARGET OpenCL)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(CZMQ REQUIRED IMPORTED_TARGET libczmq)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
if(SLUICE_TESTS)
  # Without cmocka only the tests that include it fail to build, because scripts
  # that need no such test share the build folder.
  pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
  if(NOT TARGET PkgConfig::CMOCKA)
    add_library(PkgConfig::CMOCKA INTERFACE IMPORTED)
  endif()
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Assertions stay on in release, so no -DNDEBUG.
# Reports of sanitizers need lines (-g1), no variables.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")

add_library(sluice_flags INTERFACE)
target_include_directories(sluice_flags INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_definitions(sluice_flags INTERFACE
  _GNU_SOURCE SLUICE_VERSION="${PROJECT_VERSION}")
# No contraction: a product and a sum round twice unless fma() is written.
target_compile_options(sluice_flags INTERFACE -ffp-contract=off)
target_link_libraries(sluice_flags INTERFACE Threads::Threads m)

# Packages do not depend on the folder that they were built in, and only on
# libraries that a program calls.
if(SLUICE_PACKAGES)
  target_compile_options(sluice_flags INTERFACE
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
  target_link_options(sluice_flags INTERFACE -Wl,--as-needed)
endif()

if(SLUICE_SANITIZE)
  target_compile_options(sluice_flags INTERFACE
    -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
  # As gcc does: tests that take long are shorter then.
  if(CMAKE_C_COMPILER_ID MATCHES Clang AND SLUICE_SANITIZE MATCHES address)
    target_compile_definitions(sluice_flags INTERFACE __SANITIZE_ADDRESS__)
  elseif(CMAKE_C_COMPILER_ID MATCHES Clang AND SLUICE_SANITIZE MATCHES thread)
    target_compile_definitions(sluice_flags INTERFACE __SANITIZE_THREAD__)
  endif()
  # Twice as fast as the default linker.
  find_program(SLUICE_LLD ld.lld)
  if(CMAKE_C_COMPILER_ID MATCHES Clang AND SLUICE_LLD)
    target_link_options(sluice_flags INTERFACE -fuse-ld=lld)
  endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(sluice_flags INTERFACE
    -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fcf-protection)
  target_link_options(sluice_flags INTERFACE -Wl,-z,relro,-z,now)
endif()

# What tests/coverage reports; everything else stays as fast as it was.
set(SLUICE_COVERED sluice_common sluice_transport sluice_router_core
  sluice_router_text sluice_worker_core sluice_worker_budget sluice_engine
  sluice_model_files sluice_model)
if(SLUICE_COVERAGE)
  target_link_options(sluice_flags INTERFACE --coverage)
endif()

# Warnings are errors in what we write; generated code is not ours.
add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wformat=2 -Wvla
  -Wstrict-prototypes -Wmissing-prototypes -Werror)

function(sluice_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK;DEFINE" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_compile_definitions(${name} PUBLIC ${A_DEFINE})
  target_link_libraries(${name} PUBLIC sluice_flags ${A_LINK}
    PRIVATE sluice_warnings)
  if(SLUICE_COVERAGE AND name IN_LIST SLUICE_COVERED)
    target_compile_options(${name} PRIVATE
      -O0 --coverage -fprofile-update=atomic)
  endif()
endfunction()

function(sluice_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK;DEFINE" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_compile_definitions(${name} PRIVATE ${A_DEFINE})
  target_link_libraries(${name} PRIVATE sluice_flags sluice_warnings ${A_LINK})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# A cmocka program that ctest runs from the root of the repository.  No test has
# the property TIMEOUT: tests/run sets one time for all, by the machine.
function(sluice_test name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK;DEFINE;ARGS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_compile_definitions(${name} PRIVATE ${A_DEFINE})
  target_link_libraries(${name} PRIVATE
    sluice_flags sluice_warnings ${A_LINK} PkgConfig::CMOCKA)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${A_ARGS}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

# sluice_opencl_test(TEST...): tests on the first OpenCL device, skipped where
# there is none.  What a driver compiles for them stays in SLUICE_TEST_CACHE.
function(sluice_opencl_test)
  set_tests_properties(${ARGN} PROPERTIES SKIP_RETURN_CODE 77 LABELS opencl
    ENVIRONMENT XDG_CACHE_HOME=${SLUICE_TEST_CACHE})
  if(SLUICE_SANITIZE) # a driver's compiler leaks
    set_property(TEST ${ARGN} APPEND PROPERTY
      ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
  endif()
endfunction()

# sluice_long_test(TEST...): tests that take about 5 processor seconds or more.
# tests/run takes a quarter of them each day.  Those without daemons also run if
# they can see a change (tests/touched).  Tests with the label opencl are long.
function(sluice_long_test)
  foreach(t IN LISTS ARGN)
    set_property(TEST ${t} APPEND PROPERTY LABELS long)
  endforeach()
endfunction()
