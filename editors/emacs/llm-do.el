;;; llm-do.el --- Worker files of llm-do  -*- lexical-binding: t; -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "27.1") (eglot "1.9"))
;; Keywords: languages
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Modes for worker files, manifests and cases of llm-do, and its language server in Eglot.
;;
;;   (add-to-list 'load-path "/path/to/llm-do/editors/emacs")
;;   (require 'llm-do)
;;
;; docs/guides/emacs.md describes the settings.

;;; Code:

(require 'cl-lib)
(require 'eglot)
(require 'project)

(defgroup llm-do nil
  "Programs made of LLM workers."
  :group 'tools)

(defcustom llm-do-command '("llm-do" "lsp")
  "The command that starts the language server."
  :type '(repeat string))

(defcustom llm-do-trusted nil
  "Non-nil lets the server inspect the Python tools of a program, in a confined process."
  :type 'boolean)

(defcustom llm-do-start-server t
  "Non-nil starts the language server when a file of a program is opened."
  :type 'boolean)

;;; Modes

(defun llm-do--front-matter-end ()
  "Return the position after the front matter, or the beginning if there is none."
  (save-excursion
    (goto-char (point-min))
    (skip-chars-forward "\ufeff \t\r\n")
    (if (and (looking-at "---[ \t\r]*$") (zerop (forward-line)) (re-search-forward "^---[ \t\r]*$" nil t))
        (match-end 0)
      (point-min))))

(defun llm-do--matcher (regexp in-front-matter)
  "Return a function that finds REGEXP in the front matter if IN-FRONT-MATTER, else after it."
  (lambda (limit)
    (let ((end (llm-do--front-matter-end)))
      (unless in-front-matter
        (when (< (point) end) (goto-char (min end limit))))
      (re-search-forward regexp (if in-front-matter (min end limit) limit) t))))

(defconst llm-do--keys
  `((,(llm-do--matcher "^[ \t]*\\(?:- \\)?\\([A-Za-z_][A-Za-z0-9_.-]*\\):\\(?:[ \t\r]\\|$\\)" t)
     (1 font-lock-variable-name-face))
    (,(llm-do--matcher "\\(?:^\\|[ \t]\\)\\(#.*\\)$" t) (1 font-lock-comment-face t))
    (,(llm-do--matcher "\\_<\\(true\\|false\\|null\\)\\_>" t) (1 font-lock-constant-face)))
  "Highlighting of front matter.")

(defconst llm-do--jinja
  `((,(llm-do--matcher "^#\\{1,6\\} .*$" nil) (0 font-lock-function-name-face))
    (,(llm-do--matcher "{[{%][-+]?\\|[-+]?[%}]}" nil) (0 font-lock-preprocessor-face t))
    (,(llm-do--matcher "{%[-+]?[ \t\n]*\\([a-z]+\\)" nil) (1 font-lock-keyword-face t))
    (,(llm-do--matcher "{{[-+]?[ \t\n]*\\([A-Za-z_][A-Za-z0-9_.]*\\)" nil) (1 font-lock-variable-name-face t))
    (,(llm-do--matcher "{#\\(?:[^#]\\|#[^}]\\)*#}" nil) (0 font-lock-comment-face t)))
  "Highlighting of instructions.")

(defun llm-do--start ()
  "Start the language server for this buffer, if it visits a file."
  (add-hook 'project-find-functions #'llm-do--project 90 t)
  (when (and llm-do-start-server buffer-file-name)
    (eglot-ensure)))

;;;###autoload
(define-derived-mode llm-do-worker-mode text-mode "Worker"
  "Mode for worker files: YAML front matter, then Markdown with Jinja."
  (setq-local comment-start "# " comment-start-skip "#+[ \t]*" indent-tabs-mode nil)
  (setq-local font-lock-defaults (list (append llm-do--keys llm-do--jinja) t))
  (setq-local font-lock-multiline t)
  (llm-do--start))

;; `text-mode' completes words of a dictionary with this key.
(define-key llm-do-worker-mode-map (kbd "C-M-i") #'completion-at-point)

;;;###autoload
(define-derived-mode llm-do-yaml-mode prog-mode "llm-do YAML"
  "Mode for manifests, `lib.yaml' and files of cases."
  (setq-local comment-start "# " comment-start-skip "#+[ \t]*" indent-tabs-mode nil)
  (setq-local font-lock-defaults
              '((("^[ \t]*\\(?:- \\)*\\([A-Za-z_][A-Za-z0-9_.-]*\\):\\(?:[ \t\r]\\|$\\)" (1 font-lock-variable-name-face))
                 ("\\_<\\(?:true\\|false\\|null\\)\\_>" (0 font-lock-constant-face))
                 ("\\(?:^\\|[ \t]\\)\\(#.*\\)$" (1 font-lock-comment-face t)))
                t))
  (llm-do--start))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.worker\\'" . llm-do-worker-mode))
;;;###autoload
(add-to-list 'auto-mode-alist
             '("\\(?:/\\(?:project\\|llm-do\\|lib\\)\\.yaml\\|\\.cases\\.ya?ml\\)\\'" . llm-do-yaml-mode))

;;; The folder of a program

(defun llm-do--project (folder)
  "Return the program around FOLDER as a project.  A repository around it comes first, because one server serves all programs in it."
  (let ((root (locate-dominating-file
               folder
               (lambda (at)
                 (cl-some (lambda (mark) (file-exists-p (expand-file-name mark at)))
                          '("project.yaml" "llm-do.yaml" "lib.yaml" "main.worker"))))))
    (when root (cons 'llm-do root))))

(cl-defmethod project-root ((project (head llm-do)))
  "Return the folder of PROJECT."
  (cdr project))

;;; The language server

(defclass llm-do-server (eglot-lsp-server)
  ((renames-files :initform nil :documentation "Non-nil if this package renames files, because Eglot does not."))
  :documentation "The language server of llm-do.")

(defun llm-do--contact (&rest _)
  "Return the class and the command of the server for Eglot."
  (cons 'llm-do-server llm-do-command))

(cl-defmethod eglot-initialization-options ((_server llm-do-server))
  "Return whether the workspace is trusted."
  (list :trusted (if llm-do-trusted t :json-false)))

(add-to-list 'eglot-server-programs '((llm-do-worker-mode llm-do-yaml-mode) . llm-do--contact))

(cl-defmethod eglot-client-capabilities ((server llm-do-server))
  "Return what Eglot supports for SERVER, and the rename of files, which a renamed worker needs."
  (let* ((all (cl-call-next-method))
         (workspace (plist-get all :workspace))
         (edit (plist-get workspace :workspaceEdit)))
    (unless (plist-get edit :resourceOperations)
      (setf (slot-value server 'renames-files) t)
      (plist-put workspace :workspaceEdit (append edit '(:resourceOperations ["rename"]))))
    all))

(defun llm-do--rename-file (old new)
  "Rename the file OLD to NEW, and visit NEW where OLD was visited."
  (when (file-exists-p new)
    (user-error "%s exists already" new))
  (let ((buffer (find-buffer-visiting old)))
    (when (and buffer (buffer-modified-p buffer))
      (with-current-buffer buffer (save-buffer)))
    (make-directory (file-name-directory new) t)
    (rename-file old new)
    (when buffer
      (let ((place (with-current-buffer buffer (point)))
            (windows (get-buffer-window-list buffer nil t))
            (renamed (find-file-noselect new)))
        (with-current-buffer renamed (goto-char place))
        (dolist (window windows) (set-window-buffer window renamed))
        (kill-buffer buffer)))))

(defun llm-do--apply-edit (apply edit &rest more)
  "Call APPLY with the changes of texts in EDIT and with MORE, then rename the files that EDIT renames.
A version of Eglot that renames files itself gets the whole EDIT."
  (let* ((server (eglot-current-server))
         (changes (append (plist-get edit :documentChanges) nil))
         (renames (and (cl-typep server 'llm-do-server)
                       (slot-value server 'renames-files)
                       (cl-remove-if-not (lambda (change) (equal (plist-get change :kind) "rename")) changes))))
    (if (null renames)
        (apply apply edit more)
      (apply apply (list :documentChanges (vconcat (cl-remove-if (lambda (change) (memq change renames)) changes))) more)
      (dolist (rename renames)
        (llm-do--rename-file (eglot--uri-to-path (plist-get rename :oldUri))
                             (eglot--uri-to-path (plist-get rename :newUri)))))))

(advice-add 'eglot--apply-workspace-edit :around #'llm-do--apply-edit)

(provide 'llm-do)
;;; llm-do.el ends here
