# Installs the pages for users below TO, in the folders of the sources: part of
# cmake/install.cmake, at installation.  A link to a file that is not installed,
# such as a page for those who change sluice, becomes its text.
# tests/house/documents --installed checks the result.
cmake_policy(PUSH)
cmake_policy(SET CMP0057 NEW) # IN_LIST
file(GLOB pages RELATIVE ${SOURCE} ${SOURCE}/docs/*.md ${SOURCE}/docs/images/*)
list(APPEND pages README.md CHANGELOG.md proto/README.md)

foreach(page ${pages})
  get_filename_component(folder ${page} DIRECTORY)
  file(MAKE_DIRECTORY ${TO}/${folder})
  file(CHMOD ${TO}/${folder} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE) # whatever the umask is
  if(NOT page MATCHES "[.]md$")
    file(COPY ${SOURCE}/${page} DESTINATION ${TO}/${folder}
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    continue()
  endif()
  file(READ ${SOURCE}/${page} text)
  # A list of CMake must not contain a lone bracket.
  string(REPLACE "](" "@LINK@(" text "${text}")
  string(REGEX MATCHALL "@LINK@\\([^() ]+\\)" links "${text}")
  list(REMOVE_DUPLICATES links)
  foreach(link ${links})
    string(REGEX REPLACE "^@LINK@\\(([^#]*).*\\)$" "\\1" target "${link}")
    if(target MATCHES "^[a-z]+:" OR target STREQUAL "")
      continue()
    endif()
    get_filename_component(path /${folder}/${target} ABSOLUTE)
    string(REGEX REPLACE "^/" "" path "${path}")
    if(NOT path IN_LIST pages)
      string(REGEX REPLACE "([][+.*()^$?|\\])" "\\\\\\1" exact "${link}")
      string(REGEX REPLACE "\\[([^][]*)${exact}" "\\1" text "${text}")
    endif()
  endforeach()
  string(REPLACE "@LINK@(" "](" text "${text}")
  file(WRITE ${TO}/${page} "${text}")
  file(CHMOD ${TO}/${page} PERMISSIONS
    OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  message(STATUS "Installing: ${TO}/${page}")
endforeach()
cmake_policy(POP)
