# Debian packages by CPack: `cmake/packages` builds them in build/packages.  A
# package for each component of cmake/install.cmake:
#
#     sluice        router, gateway, tools, their units
#     sluice-worker the worker and its unit
#     libsluice0    the shared C library
#     libsluice-dev headers, the static C library, pkg-config
set(SLUICE_MAINTAINER "sluice maintainers <maintainers@sluice.invalid>"
  CACHE STRING "name and address for the packages")
set(packages ${PROJECT_BINARY_DIR}/debian)

# The build's clock must not be in the packages.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  message(FATAL_ERROR "SOURCE_DATE_EPOCH is not set; call cmake/packages")
endif()
string(TIMESTAMP SLUICE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(deploy/debian/changelog.in ${packages}/changelog @ONLY)

install(FILES deploy/config/router.conf deploy/config/gateway.conf
  DESTINATION /etc/sluice COMPONENT sluice)
install(FILES deploy/config/worker.conf DESTINATION /etc/sluice
  COMPONENT worker)
foreach(pair sluice=sluice worker=sluice-worker library=libsluice0
    dev=libsluice-dev)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES deploy/debian/copyright ${packages}/changelog
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
    COMPONENT ${component})
  if(EXISTS ${PROJECT_SOURCE_DIR}/deploy/debian/${component}/lintian)
    install(FILES deploy/debian/${component}/lintian RENAME ${package}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
      COMPONENT ${component})
  endif()
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  file(GLOB CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/deploy/debian/${component}/[cpt]*)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_CONTACT "${SLUICE_MAINTAINER}")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/deb)
set(CPACK_COMPONENTS_ALL sluice worker library dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE
  OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/packages_staged.cmake)

set(version "(= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_SLUICE_PACKAGE_SECTION net)
set(CPACK_DEBIAN_SLUICE_PACKAGE_DEPENDS passwd)
set(CPACK_DEBIAN_SLUICE_PACKAGE_RECOMMENDS sluice-worker)
set(CPACK_DEBIAN_SLUICE_PACKAGE_SUGGESTS prometheus)
set(CPACK_DEBIAN_SLUICE_DESCRIPTION
"cluster that serves large language models: router and gateway
sluice serves large language models on a cluster of GPU or CPU workers,
through OpenAI's HTTP API. It admits a request only when the memory for all
of it is free, and streams survive the death of a worker or the router.

This package has the router, the HTTP gateway, the operator's tool sluicectl,
the local front sluice and the load tester sluice-load. Its units are neither
enabled nor started by the installation.")
set(CPACK_DEBIAN_WORKER_PACKAGE_SECTION net)
set(CPACK_DEBIAN_WORKER_PACKAGE_DEPENDS "sluice ${version}")
set(CPACK_DEBIAN_WORKER_PACKAGE_RECOMMENDS "pocl-opencl-icd | opencl-icd")
set(CPACK_DEBIAN_WORKER_DESCRIPTION
"cluster that serves large language models: worker
sluice serves large language models on a cluster of GPU or CPU workers,
through OpenAI's HTTP API.

This package has the worker, which holds a model and runs its steps on the CPU
or on an OpenCL device. Its unit sluice-worker@NAME reads
/etc/sluice/worker-NAME.conf.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION
"cluster that serves large language models: C library
sluice serves large language models on a cluster of GPU or CPU workers.

This package has the shared library with which programs send requests to a
router.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libsluice0 ${version}, libprotobuf-c-dev, libzmq3-dev, libxxhash-dev")
if(SLUICE_PC_PRIVATE MATCHES czmq)
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", libczmq-dev")
endif()
set(CPACK_DEBIAN_DEV_DESCRIPTION
"cluster that serves large language models: development files
sluice serves large language models on a cluster of GPU or CPU workers.

This package has the headers, the static library and the pkg-config file for
programs that send requests to a router.")
include(CPack)
