" Syntax of worker files: YAML front matter, then Markdown with Jinja.
if exists('b:current_syntax')
  finish
endif

runtime! syntax/markdown.vim
unlet! b:current_syntax
syntax include @workerYaml syntax/yaml.vim
unlet! b:current_syntax

" The front matter begins in the first line of the file. Braces in it are text.
syntax region workerFrontMatter matchgroup=workerDelimiter start=/\%^\%uFEFF\=---\s*$/ end=/^---\s*$/ contains=@workerYaml keepend

syntax region workerComment start=/{#/ end=/#}/ containedin=ALLBUT,workerFrontMatter,@workerYaml,@workerInner,workerComment,workerRaw
syntax region workerOutput matchgroup=workerBrace start=/{{[-+]\=/ end=/[-+]\=}}/ contains=@workerInner containedin=ALLBUT,workerFrontMatter,@workerYaml,@workerInner,workerComment,workerRaw,workerOutput,workerStatement
syntax region workerStatement matchgroup=workerBrace start=/{%[-+]\=/ end=/[-+]\=%}/ contains=@workerInner containedin=ALLBUT,workerFrontMatter,@workerYaml,@workerInner,workerComment,workerRaw,workerOutput,workerStatement
syntax region workerRaw matchgroup=workerBrace start=/{%[-+]\=\s*raw\s*[-+]\=%}/ end=/{%[-+]\=\s*endraw\s*[-+]\=%}/ containedin=ALLBUT,workerFrontMatter,@workerYaml,@workerInner,workerComment,workerOutput,workerStatement

syntax cluster workerInner contains=workerString,workerNumber,workerKeyword,workerConstant,workerFilter,workerVariable
syntax match workerVariable /\<\h\w*\>/ contained
syntax match workerNumber /\<\d[0-9_]*\%(\.\d\+\)\=\>/ contained
syntax keyword workerKeyword and as block call elif else endblock endcall endfilter endfor endif endmacro endset endwith extends filter for from if ignore import in include is macro missing not or recursive set with without context contained
syntax keyword workerConstant true false none True False None contained
syntax match workerFilter /|\s*\h\w*/ contained
syntax region workerString start=/"/ skip=/\\./ end=/"/ contained
syntax region workerString start=/'/ skip=/\\./ end=/'/ contained

highlight default link workerDelimiter PreProc
highlight default link workerBrace PreProc
highlight default link workerComment Comment
highlight default link workerKeyword Statement
highlight default link workerConstant Boolean
highlight default link workerFilter Function
highlight default link workerVariable Identifier
highlight default link workerNumber Number
highlight default link workerString String

let b:current_syntax = 'worker'
