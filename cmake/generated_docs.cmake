# Files that the programs print from their own tables of options: manual pages,
# completion for bash and zsh, sample configurations.  They are in
# build/PRESET/share, in the folders of an installed system.
#
# The target docs_generated is part of ALL, except with sanitizers, whose
# programs are not for installing.
set(share ${PROJECT_BINARY_DIR}/share)
set(generated_docs "")

function(sluice_generated program kind path)
  get_filename_component(folder ${share}/${path} DIRECTORY)
  add_custom_command(OUTPUT ${share}/${path}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND $<TARGET_FILE:${program}> --generate ${kind} > ${share}/${path}
    DEPENDS ${program}
    COMMENT "Generating share/${path}" VERBATIM)
  list(APPEND generated_docs ${share}/${path})
  set(generated_docs ${generated_docs} PARENT_SCOPE)
endfunction()

foreach(program sluice sluicectl sluice-load)
  sluice_generated(${program} man man/man1/${program}.1)
endforeach()
foreach(role router gateway worker)
  sluice_generated(sluice-${role} man man/man8/sluice-${role}.8)
  sluice_generated(sluice-${role} conf doc/sluice/examples/${role}.conf)
endforeach()
foreach(program sluice sluicectl sluice-load sluice-router sluice-gateway
    sluice-worker)
  sluice_generated(${program} bash bash-completion/completions/${program})
  sluice_generated(${program} zsh zsh/site-functions/_${program})
endforeach()

# sluice.conf(5) has a section of each daemon.
set(page ${share}/man/man5/sluice.conf.5)
add_custom_command(OUTPUT ${page}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${share}/man/man5
  COMMAND $<TARGET_FILE:sluice-router> --generate man5-head > ${page}
  COMMAND $<TARGET_FILE:sluice-router> --generate man5 >> ${page}
  COMMAND $<TARGET_FILE:sluice-gateway> --generate man5 >> ${page}
  COMMAND $<TARGET_FILE:sluice-worker> --generate man5 >> ${page}
  COMMAND $<TARGET_FILE:sluice-router> --generate man5-tail >> ${page}
  DEPENDS sluice-router sluice-gateway sluice-worker
  COMMENT "Generating share/man/man5/sluice.conf.5" VERBATIM)
list(APPEND generated_docs ${page})

if(SLUICE_SANITIZE)
  add_custom_target(docs_generated DEPENDS ${generated_docs})
else()
  add_custom_target(docs_generated ALL DEPENDS ${generated_docs})
endif()
