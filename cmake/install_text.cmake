# Installs FILE as FOLDER/NAME with the installed programs in place of /usr/bin:
# part of cmake/install.cmake, at installation.
if(IS_ABSOLUTE "${FOLDER}")
  set(at "$ENV{DESTDIR}${FOLDER}")
else()
  set(at "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${FOLDER}")
endif()
if(IS_ABSOLUTE "${BINDIR}")
  set(programs "${BINDIR}")
else()
  set(programs "${CMAKE_INSTALL_PREFIX}/${BINDIR}")
endif()
file(READ "${FILE}" text)
string(REPLACE "=/usr/bin/sluice" "=${programs}/sluice" text "${text}")
file(WRITE "${at}/${NAME}" "${text}")
file(CHMOD "${at}/${NAME}" PERMISSIONS
  OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
message(STATUS "Installing: ${at}/${NAME}")
