;;; drive.el --- Run by tests/run in an Emacs without a screen  -*- lexical-binding: t; -*-

(require 'llm-do)
(require 'flymake)
(require 'subr-x)
(require 'xref)

(defvar tests-project (file-truename (file-name-as-directory (getenv "LLM_DO_PROJECT_OF_TEST"))))
(defvar tests-passed 0)
(defvar tests-failed 0)

(defmacro test (name &rest body)
  "Run BODY as the test NAME."
  (declare (indent 1))
  `(condition-case problem
       (progn ,@body (cl-incf tests-passed) (message "ok    %s" ,name))
     (error (cl-incf tests-failed) (message "FAIL  %s\n      %s" ,name (error-message-string problem)))))

(defmacro until (what condition)
  "Wait for CONDITION, at most a minute, or fail with WHAT.
Eglot sends changes when Emacs is idle, which it never is in a batch."
  `(let ((end (+ (float-time) 60)) found)
     (while (and (not (setq found ,condition)) (< (float-time) end))
       (when (eglot-managed-p) (eglot--signal-textDocument/didChange))
       (accept-process-output nil 0.05))
     (or found (error "%s did not happen" ,what))))

(defun same (got wanted)
  "Fail unless GOT equals WANTED."
  (unless (equal got wanted) (error "Got %S, not %S" got wanted)))

(defun visit (path)
  "Visit the file at PATH of the project with a running server."
  (switch-to-buffer (find-file-noselect (expand-file-name path tests-project)))
  ;; A batch Emacs runs no command, after which `eglot-ensure' would start.
  (run-hooks 'post-command-hook)
  (until "the server" (and (eglot-current-server) (eglot-managed-p))))

(defun findings ()
  "Return the messages that Flymake shows."
  (mapcar #'flymake-diagnostic-text (flymake-diagnostics)))

(defun finding (text)
  "Return the Flymake finding with TEXT."
  (cl-find-if (lambda (one) (string-match-p (regexp-quote text) (flymake-diagnostic-text one))) (flymake-diagnostics)))

(defun put-at (text)
  "Move to the beginning of TEXT."
  (goto-char (point-min))
  (search-forward text)
  (goto-char (match-beginning 0)))

(setq llm-do-command (split-string (getenv "LLM_DO_SERVER_OF_TEST") "\n")
      make-backup-files nil
      eglot-confirm-server-initiated-edits nil
      ;; With a list, which an event of a mouse is, Eglot would open a menu.
      last-nonmenu-event ?\r)
(advice-add 'y-or-n-p :override (lambda (&rest _) t))

(test "files of a program have their modes"
  (same (assoc-default "/a/main.worker" auto-mode-alist #'string-match) 'llm-do-worker-mode)
  (dolist (name '("project.yaml" "llm-do.yaml" "lib.yaml" "b.cases.yaml" "b.cases.yml"))
    (same (assoc-default (concat "/a/" name) auto-mode-alist #'string-match) 'llm-do-yaml-mode))
  (same (eq (assoc-default "/a/b.yaml" auto-mode-alist #'string-match) 'llm-do-yaml-mode) nil))

(test "front matter and instructions are highlighted"
  (visit "main.worker")
  (same major-mode 'llm-do-worker-mode)
  (font-lock-ensure)
  (let ((face (lambda (text) (put-at text) (get-text-property (point) 'face))))
    (same (funcall face "description") 'font-lock-variable-name-face)
    (same (funcall face "name }}") 'font-lock-variable-name-face)
    (same (funcall face "if name") 'font-lock-keyword-face)
    (same (funcall face "{# note") 'font-lock-comment-face)
    (same (funcall face "# Head") 'font-lock-function-name-face)
    (same (funcall face "Greet") nil)))

(test "Flymake shows a finding, and a code action corrects it"
  (until "the finding" (finding "locked"))
  (same (flymake-diagnostic-type (finding "locked")) 'eglot-error)
  (same (line-number-at-pos (flymake-diagnostic-beg (finding "locked"))) 3)
  (goto-char (flymake-diagnostic-beg (finding "locked")))
  (let ((fix (cl-find-if (lambda (one) (equal (plist-get one :kind) "quickfix")) (eglot-code-actions (point) (point)))))
    (unless fix (error "There is no fix"))
    (cl-letf (((symbol-function 'completing-read) (lambda (&rest _) (plist-get fix :title))))
      (call-interactively #'eglot-code-actions)))
  (goto-char (point-min))
  (same (and (re-search-forward "^locked: true$" nil t) t) t)
  (until "the end of the finding" (not (finding "locked"))))

(test "a key is completed"
  (goto-char (point-min))
  (search-forward "locked: true\n")
  (insert "compat\n")
  (forward-char -1)
  (until "the completion"
         (progn
           (call-interactively (key-binding (kbd "C-M-i")))
           (string-prefix-p "compatible_models" (buffer-substring (line-beginning-position) (line-end-position)))))
  (delete-region (line-beginning-position) (line-beginning-position 2)))

(test "a definition is found in another file"
  (save-buffer)
  (put-at "helper")
  (until "the definition" (xref-backend-definitions 'eglot (xref-backend-identifier-at-point 'eglot)))
  (let ((xref-prompt-for-identifier nil))
    (xref-find-definitions (xref-backend-identifier-at-point 'eglot)))
  (same buffer-file-name (expand-file-name "workers/helper.worker" tests-project))
  (visit "project.yaml")
  (same major-mode 'llm-do-yaml-mode)
  ;; One server has all files of the program.
  (same (length (cl-remove-duplicates (apply #'append (hash-table-values eglot--servers-by-project)))) 1))

(test "a worker is renamed with its file and its callers"
  (visit "main.worker")
  (put-at "helper")
  (eglot-rename "assistant")
  (goto-char (point-min))
  (same (and (search-forward "allow_workers: [assistant]" nil t) t) t)
  (same (directory-files (expand-file-name "workers" tests-project) nil "worker\\'") '("assistant.worker"))
  (same (and (find-buffer-visiting (expand-file-name "workers/assistant.worker" tests-project)) t) t)
  (same (find-buffer-visiting (expand-file-name "workers/helper.worker" tests-project)) nil)
  (save-buffer)
  (until "a program without findings" (not (findings))))

(message "%d passed, %d failed" tests-passed tests-failed)
(kill-emacs (if (zerop tests-failed) 0 1))
;;; drive.el ends here
