# cmake --install: programs, units, examples, the C library, manual pages.
# One component for each package of cmake/packages.cmake.
include(GNUInstallDirs)
set(SLUICE_UNIT_DIR lib/systemd/system CACHE STRING
  "folder of systemd's units; relative to the prefix, or absolute")

install(TARGETS sluice-router sluice-gateway sluicectl sluice sluice-load
  RUNTIME COMPONENT sluice)
install(TARGETS sluice-worker RUNTIME COMPONENT worker)

# sluice_install_text(COMPONENT FILE FOLDER NAME): installs a text with the
# folder of the programs in place of /usr/bin.  FOLDER is relative to the prefix,
# which is known only at installation.
function(sluice_install_text component file folder name)
  install(CODE "
    set(FILE \"${PROJECT_SOURCE_DIR}/${file}\")
    set(FOLDER \"${folder}\")
    set(NAME \"${name}\")
    set(BINDIR \"${CMAKE_INSTALL_BINDIR}\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/install_text.cmake\")"
    COMPONENT ${component})
endfunction()

foreach(unit sluice-router.service sluice-gateway.service
    sluice-gateway.socket sluice.target)
  sluice_install_text(sluice deploy/systemd/${unit} ${SLUICE_UNIT_DIR} ${unit})
endforeach()
sluice_install_text(worker deploy/systemd/sluice-worker@.service
  ${SLUICE_UNIT_DIR} sluice-worker@.service)
install(FILES deploy/systemd/sluice.sysusers DESTINATION lib/sysusers.d
  RENAME sluice.conf COMPONENT sluice)
install(FILES deploy/systemd/sluice.tmpfiles DESTINATION lib/tmpfiles.d
  RENAME sluice.conf COMPONENT sluice)
install(FILES deploy/systemd/sluice-worker.sysusers DESTINATION lib/sysusers.d
  RENAME sluice-worker.conf COMPONENT worker)

install(FILES deploy/config/examples/router-keys.conf
  deploy/config/examples/gateway-keys.conf
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice/examples COMPONENT sluice)
install(DIRECTORY deploy/prometheus deploy/grafana
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice/examples COMPONENT sluice)
install(FILES deploy/config/examples/worker-gpu0.conf
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice-worker/examples
  COMPONENT worker)
install(CODE "
  set(SOURCE \"${PROJECT_SOURCE_DIR}\")
  set(TO \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/sluice\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/install_docs.cmake\")"
  COMPONENT sluice)
install(PROGRAMS deploy/slurm/sluice-job deploy/slurm/sluice-step
  DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/slurm COMPONENT sluice)
install(PROGRAMS deploy/slurm/sluice.sbatch
  DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/slurm COMPONENT sluice)

# What the programs print about themselves, if the build has made it.
set(share ${PROJECT_BINARY_DIR}/share)
install(DIRECTORY ${share}/doc/sluice/examples/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice/examples
  COMPONENT sluice OPTIONAL PATTERN "worker*" EXCLUDE)
install(DIRECTORY ${share}/doc/sluice/examples/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice-worker/examples
  COMPONENT worker OPTIONAL FILES_MATCHING PATTERN "worker*")
install(DIRECTORY ${share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}
  COMPONENT sluice OPTIONAL PATTERN "sluice-worker*" EXCLUDE)
install(DIRECTORY ${share}/bash-completion/completions/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  COMPONENT sluice OPTIONAL PATTERN "sluice-worker*" EXCLUDE)
install(DIRECTORY ${share}/zsh/site-functions/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
  COMPONENT sluice OPTIONAL PATTERN "_sluice-worker*" EXCLUDE)
install(DIRECTORY ${share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}
  COMPONENT worker OPTIONAL FILES_MATCHING PATTERN "sluice-worker*")
install(DIRECTORY ${share}/bash-completion/completions/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  COMPONENT worker OPTIONAL FILES_MATCHING PATTERN "sluice-worker*")
install(DIRECTORY ${share}/zsh/site-functions/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
  COMPONENT worker OPTIONAL FILES_MATCHING PATTERN "_sluice-worker*")

# Instrumented objects need their compiler's run-time library.
if(NOT SLUICE_SANITIZE AND NOT SLUICE_COVERAGE AND NOT SLUICE_FUZZ)
  include(cmake/library.cmake)
endif()
